"""A message of a chat, after OpenAI's API."""

import json
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from kernels.server.http.errors import quoted
from kernels.server.http.tools import MAX_TOOLS
from kernels.server.http.unserved import NONE

UNSERVED_OF_MESSAGES: dict[str, tuple[Any, ...]] = {
    "function_call": NONE,
    "audio": NONE,
    "refusal": (None, ""),
    "reasoning": (None, ""),
    "reasoning_content": (None, ""),
}
"""Fields that this server has no part for, with the values that change nothing."""


class TextPart(BaseModel):
    """A part of a message; this server reads text only."""

    type: Literal["text"]
    text: str


def _json_object(data: Any) -> Any:
    try:
        document = json.loads(data or "{}")
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError("it must be a JSON object, written as a text") from error
    if not isinstance(document, dict):
        raise ValueError("it must be a JSON object, written as a text")
    return document


class CalledFunction(BaseModel):
    """What an earlier call called, with `arguments` as JSON, of which chat templates read the object."""

    name: str
    arguments: Annotated[dict[str, Any], BeforeValidator(_json_object)]


class EarlierCall(BaseModel):
    """A call of a tool in an assistant's message."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class Message(BaseModel):
    """One message of a chat. `name`, of who speaks, and calls of tools are for the model's chat template."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Annotated[list[TextPart], Field(fail_fast=True)]
    name: str | None = None
    tool_calls: Annotated[list[EarlierCall], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = None
    tool_call_id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _served(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        for name, harmless in UNSERVED_OF_MESSAGES.items():
            if name in data and data[name] not in harmless:
                raise ValueError(f"{name} is not served here")
        return {"content": None} | data if data.get("tool_calls") else data

    @field_validator("content", mode="wrap")
    @classmethod
    def _text_alone(cls, value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        if value is None and info.data.get("role") == "assistant":  # what an assistant says that only calls tools
            return ""
        try:
            return check(value)
        except ValidationError as error:
            kinds = [item.get("type") for item in value if isinstance(item, dict)] if isinstance(value, list) else []
            other = next((kind for kind in kinds if isinstance(kind, str) and kind != "text"), None)
            if other is not None:
                raise ValueError(f"a part of type {quoted(other)} is not served here: this model reads text") from error
            raise ValueError("it must be a text, or a list of parts of type text") from error

    @property
    def document(self) -> dict[str, Any]:
        """What the chat template reads."""
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        calls = [call.model_dump() for call in self.tool_calls or ()]
        others = {"name": self.name, "tool_calls": calls, "tool_call_id": self.tool_call_id}
        return {"role": self.role, "content": text} | {name: value for name, value in others.items() if value}
