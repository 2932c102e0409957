"""Errors of the server in the shape that OpenAI's clients read. Imports without torch."""

import json
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

LONGEST_QUOTE = 100
"""The characters of a client's own text that an error repeats."""
LONGEST_MESSAGE = 1000
"""An error's characters. A number may have thousands of digits, and a chat template may refuse with a whole message."""
WHOLE, NUMBER, SWITCH, TEXT = "a whole number", "a number", "true or false", "a text"
WANTED = {
    "int_type": WHOLE, "int_parsing": WHOLE, "int_from_float": WHOLE, "int_parsing_size": WHOLE,
    "float_type": NUMBER, "float_parsing": NUMBER, "finite_number": NUMBER,
    "bool_type": SWITCH, "bool_parsing": SWITCH,
    "string_type": TEXT, "string_too_long": "a text of {max_length:,} characters at most",
    "list_type": "a list", "dict_type": "an object", "model_type": "an object",
    "greater_than_equal": "{ge} or more", "less_than_equal": "{le} at most",
    "too_long": "a list of {max_length} at most", "too_short": "a list of {min_length} or more",
    "literal_error": "{expected}",
}  # fmt: skip
"""What a field should have been, by pydantic's type of the error."""


class ApiError(Exception):
    """An error that a client is told: one sentence, an HTTP status, and the parameter at fault if there is one."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        message = message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 1] + "…"
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code

    @property
    def document(self) -> dict[str, Any]:
        """The body of the answer."""
        kind = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}.get(
            self.status, "invalid_request_error" if self.status < 500 else "server_error"
        )
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def quoted(text: str) -> str:
    """A client's own text as an error repeats it: in quotation marks, its beginning if it is long."""
    return json.dumps(text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "…", ensure_ascii=False)


def refused(field: str, sentence: str, code: str | None = None) -> PydanticCustomError:
    """The error that a validator raises because of one field, where the sentence is whole."""
    return PydanticCustomError("refused", "{sentence}", {"field": field, "sentence": sentence, "code": code})


def of_validation(error: ValidationError) -> ApiError:
    """The first thing that is wrong with a request's document."""
    first = error.errors(include_url=False)[0]
    kind, context = first["type"], first.get("ctx", {})
    param = ".".join(str(part) for part in first["loc"]) or context.get("field")
    if kind == "missing":
        return ApiError(400, f"{param}: it is missing", param)
    if kind in WANTED:
        sentence = f"it must be {WANTED[kind].format(**context)}"
    else:
        sentence = first["msg"].removeprefix("Value error, ")
    if kind == "refused":
        return ApiError(400, sentence, param, context["code"])
    return ApiError(400, f"{param or 'the body'}: {sentence}", param)
