"""The OpenAPI document as what the pages show: operations by part, and schemas."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from django.utils.safestring import SafeString, mark_safe

from workbench.api_docs import examples
from workbench.api_v1 import api
from workbench.library.documents import MARKDOWN

PREFIX = "/api/v1/"
REFERENCE = "#/components/schemas/"
Kind = list[tuple[str, str]]
"""Words of a type, each with the schema that it names, or ""."""


@dataclass(frozen=True)
class Field:
    """A parameter of an operation, or a field of a schema."""

    name: str
    kind: Kind
    required: bool
    default: str
    about: SafeString
    where: str = ""
    """Where a parameter stands: path, query or header."""


@dataclass(frozen=True)
class Schema:
    """An object that is sent or answered; `kind` where it is no object with fields."""

    name: str
    about: SafeString
    fields: list[Field]
    kind: Kind


@dataclass(frozen=True)
class Operation:
    """One method of one address."""

    name: str
    method: str
    path: str
    summary: str
    about: SafeString
    parameters: list[Field]
    body: Kind
    status: str
    answer: Kind
    curl: str
    python: str


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document, which does not change while a process runs."""
    schema: dict[str, Any] = api.get_openapi_schema(path_prefix=PREFIX)
    return schema


@cache
def parts() -> dict[str, list[Operation]]:
    """The operations by their tag, in the order of the document."""
    by_tag: dict[str, list[Operation]] = {}
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append(_operation(path, method, operation))
    return by_tag


@cache
def schemas() -> list[Schema]:
    """Every schema, by name."""
    return [_schema(name, schema) for name, schema in sorted(document()["components"]["schemas"].items())]


def _operation(path: str, method: str, operation: dict[str, Any]) -> Operation:
    parameters = [
        _field(
            parameter["name"],
            parameter["schema"],
            parameter.get("required", False),
            parameter.get("description", ""),
            parameter["in"],
        )
        for parameter in operation.get("parameters", [])
    ]
    status, answer = next(iter(operation["responses"].items()))
    return Operation(
        name=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        about=_html(operation.get("description", "")),
        parameters=parameters,
        body=_content(operation.get("requestBody", {})),
        status=str(status),
        answer=_content(answer),
        curl=examples.curl(path, method, operation),
        python=examples.python(path, operation),
    )


def _html(text: str) -> SafeString:
    """The Markdown of a docstring, without raw HTML."""
    return mark_safe(MARKDOWN.renderInline(text))  # the renderer escapes all text


def _content(part: dict[str, Any]) -> Kind:
    """The kind of a body or an answer; of a file its media type."""
    for media_type, content in part.get("content", {}).items():
        if media_type == "application/json":
            return kind(content["schema"])
        return [(f"a file, {media_type}", "")]
    return []


def _schema(name: str, schema: dict[str, Any]) -> Schema:
    required = schema.get("required", [])
    fields = [
        _field(field, field_schema, field in required, field_schema.get("description", ""))
        for field, field_schema in schema.get("properties", {}).items()
    ]
    return Schema(name, _html(schema.get("description", "")), fields, [] if fields else kind(schema))


def _field(name: str, schema: dict[str, Any], required: bool, about: str, where: str = "") -> Field:
    default = schema.get("default")
    shown = "" if default is None or default == "" else examples.as_json(default)
    sentence = f"{about[0].upper()}{about[1:].rstrip('.')}." if about else ""
    return Field(name, kind(schema), required, shown, _html(sentence), where)


def kind(schema: dict[str, Any]) -> Kind:
    """The type of a JSON Schema in words: `integer, 1 to 200`, `list of Objective`, `"met" or "missed"`."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REFERENCE)
        return [(name, name)]
    for several in ("allOf", "anyOf", "oneOf"):
        if several in schema:
            return _or([kind(alternative) for alternative in schema[several]])
    if "enum" in schema or "const" in schema:
        return _or([[(examples.as_json(value), "")] for value in schema.get("enum", [schema.get("const")])])
    if schema.get("type") == "array":
        return [("list of ", ""), *kind(schema.get("items", {}))]
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return [("object with values ", ""), *kind(schema["additionalProperties"])]
    words = schema.get("type", "any value")
    return [(", ".join([str(words), *_limits(schema)]), "")]


def _or(kinds: list[Kind]) -> Kind:
    joined: Kind = []
    for words in kinds:
        joined += [(" or ", ""), *words] if joined else words
    return joined


def _limits(schema: dict[str, Any]) -> list[str]:
    words = {
        "format": "{}",
        "minimum": "at least {}",
        "exclusiveMinimum": "above {}",
        "maximum": "at most {}",
        "exclusiveMaximum": "below {}",
        "maxLength": "at most {} characters",
        "maxItems": "at most {}",
    }
    return [text.format(schema[key]) for key, text in words.items() if key in schema]
