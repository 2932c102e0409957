"""Reasons for refusals as sentences, for the API, the forms and the command line. Imports no Django."""

from collections.abc import Mapping, Sequence
from typing import Any

import pydantic

KINDS = {
    "bool": "should be true or false",
    "int": "should be a whole number",
    "float": "should be a number",
    "list": "should be a list",
    "uuid": "should be an id in the form of a UUID",
}
PATTERNS = {
    "^[^,]+$": "should be without a comma",
    "^[0-9a-f]{64}$": "should be 64 hexadecimal digits",
    "^([0-9a-f]{64})?$": "should be 64 hexadecimal digits",
    "^([0-9a-f]{4,8})?$": "should be 4 to 8 hexadecimal digits",
}
"""What texts of a pattern should be; other patterns are shown as they are."""
PUNCTUATION_OF_PATHS = str.maketrans("", "", "._[]")
SECRET = ("key",)
"""Fields whose contents no sentence repeats."""


class Problem(Exception):
    """Raise it in an endpoint to answer with problem+json: a status, one sentence, and what is wrong where.

    `errors` are mappings with `field`, `reason` and perhaps `file`.
    """

    def __init__(self, status: int, detail: str, errors: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(detail)
        self.status, self.detail, self.errors = status, detail, [dict(error) for error in errors]


def describe_error(error: Mapping[str, Any], path: str) -> tuple[str, str]:
    """Field and reason of one pydantic error. The project's own validators write `field: reason` as the message."""
    kind, message = error["type"], str(error["msg"])
    if kind == "value_error":
        message = message.removeprefix("Value error, ")
        field, colon, reason = message.partition(": ")
        if colon and field.translate(PUNCTUATION_OF_PATHS).isalnum():
            return ".".join(filter(None, [path, field])), reason
        return path, message
    if kind == "missing":
        return path, "is required"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return path, "is not a known field"
    if kind == "union_tag_not_found":
        return f"{path}.{error['ctx']['discriminator'].strip(chr(39))}", "is required with the fields beside it"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return path, "should be an object with named fields"
    if kind == "json_invalid":
        return path, f"is not valid JSON: {error.get('ctx', {}).get('error', message)}"
    words = KINDS.get(kind.partition("_")[0]) or PATTERNS.get(error.get("ctx", {}).get("pattern")) or message
    for subject in ("Input ", "String ", "List "):
        words = words.removeprefix(subject)
    words = words.replace(" after validation", "")
    given = error.get("input")
    shown = f", not {given!r}" if isinstance(given, str | int | float | bool) and len(repr(given)) <= 60 else ""
    if path.rpartition(".")[2] in SECRET:
        shown = ""
    return path, words[:1].lower() + words[1:] + shown


def field_path(location: Sequence[int | str]) -> str:
    """`objectives[0].limit` from `("objectives", 0, "limit")`."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f"{'.' if path else ''}{part}"
    return path


def sentences(error: pydantic.ValidationError, file: str = "") -> list[dict[str, str]]:
    """A pydantic error as `[{field, reason, file?}]`. Each reason reads well beside its form field."""
    reasons = []
    for part in error.errors(include_url=False):
        field, reason = describe_error(part, field_path(part["loc"]))
        reasons.append({"field": field, "reason": reason} | ({"file": file} if file else {}))
    return reasons


def sentence(reason: Mapping[str, str]) -> str:
    """`sla.yaml: objectives[0].limit: should be greater than 0, not -5`."""
    return ": ".join(filter(None, [reason.get("file"), reason.get("field"), reason["reason"]]))


def invalid(errors: Sequence[Mapping[str, str]]) -> Problem:
    """The 422 for these reasons; its detail is the first one's sentence."""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Problem(422, f"{sentence(errors[0])}{more}", errors)
