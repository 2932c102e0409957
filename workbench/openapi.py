"""The OpenAPI document: what django-ninja cannot know of the endpoints is added here."""

from typing import Any

PROBLEM_TYPE = "application/problem+json"
IDEMPOTENCY_KEY = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "schema": {"type": "string", "maxLength": 200},
    "description": "The same key with the same body is answered again for a day, not done again.",
}


def answers_file(media_type: str) -> dict[str, Any]:
    """`openapi_extra` of an endpoint whose answer is a file of this media type."""
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    return {"responses": {200: {"description": "The file", "content": content}}}


def complete(document: dict[str, Any], problem: dict[str, Any]) -> None:
    """Add to every operation its errors, `problem` being their JSON Schema, and to every POST its Idempotency-Key.

    Defaults that are objects go: generators of clients cannot express them, and the schema of such an object states
    the same defaults field by field.
    """
    schemas = document["components"]["schemas"]
    schemas |= problem.pop("$defs") | {"ProblemDocument": problem}
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            if isinstance(field.get("default"), dict):
                del field["default"]
    content = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    for operations in document["paths"].values():
        for method, operation in operations.items():
            operation["responses"]["default"] = {"description": "A problem", "content": content}
            if method == "post":
                operation["parameters"] = [*operation.get("parameters", []), IDEMPOTENCY_KEY]
