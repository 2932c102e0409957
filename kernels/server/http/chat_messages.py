"""A message of a chat, after OpenAI's API."""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from kernels.server.http.errors import quoted

NONE = (None,)
UNSERVED_OF_MESSAGES: dict[str, tuple[Any, ...]] = {
    "tool_calls": (None, []),
    "tool_call_id": NONE,
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


class Message(BaseModel):
    """One message of a chat. `name`, of who speaks, is for the model's chat template."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Annotated[list[TextPart], Field(fail_fast=True)]
    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _served(cls, given: Any) -> Any:
        for name, harmless in UNSERVED_OF_MESSAGES.items() if isinstance(given, dict) else ():
            if name in given and given[name] not in harmless:
                raise ValueError(f"{name} is not served here")
        return given

    @field_validator("content", mode="wrap")
    @classmethod
    def _text_alone(cls, value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        if value is None and info.data.get("role") == "assistant":  # what an assistant says that only calls tools
            return ""
        try:
            return check(value)
        except ValidationError as error:
            kinds = [each.get("type") for each in value if isinstance(each, dict)] if isinstance(value, list) else []
            other = next((kind for kind in kinds if isinstance(kind, str) and kind != "text"), None)
            if other is not None:
                raise ValueError(f"a part of type {quoted(other)} is not served here: this model reads text") from error
            raise ValueError("it must be a text, or a list of parts of type text") from error

    @property
    def document(self) -> dict[str, str]:
        """What the chat template reads."""
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": self.role, "content": text} | ({"name": self.name} if self.name else {})
