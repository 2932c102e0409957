"""What clients may ask, after OpenAI's API. Unknown fields are ignored; known ones that are not served are refused."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, StrictBool, StrictInt, ValidationInfo, field_validator, model_validator

MOST_CHOICES, MOST_STOPS, MOST_LIKELIEST = 128, 16, 20
Ids = Annotated[list[StrictInt], Field(min_length=1)]
UNSERVED: dict[str, tuple[Any, ...]] = {
    "logit_bias": (None, {}),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
    "repetition_penalty": (None, 1),
    "best_of": (None, 1),
    "echo": (None, False),
    "suffix": (None, ""),
    "tools": (None, []),
    "functions": (None, []),
    "response_format": (None, {"type": "text"}),
    "guided_json": (None,),
    "guided_regex": (None,),
}
"""Fields that would change the answer and that this server has no part for, with the values that change nothing."""


class StreamOptions(BaseModel):
    """`include_usage`: a last event with the counts of tokens."""

    include_usage: bool = False


class Asked(BaseModel, ABC):
    """What both kinds of request have. `top_k`, `ignore_eos` and `return_token_ids` are known from vLLM."""

    model: str
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    n: int = Field(default=1, ge=1, le=MOST_CHOICES)
    stop: list[str] = Field(default=[], max_length=MOST_STOPS)
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    ignore_eos: bool = False
    return_token_ids: bool = False

    @property
    @abstractmethod
    def likeliest(self) -> int | None:
        """So many of the likeliest tokens are told beside each token; None: no log probabilities are."""

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        for name, harmless in UNSERVED.items():
            if name in given and given[name] not in harmless:
                raise ValueError(f"{name} is not served here")
        found = {name: value for name, value in given.items() if value is not None}
        if isinstance(found.get("stop"), str):
            found["stop"] = [found["stop"]]
        return found

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if any(not each for each in self.stop):
            raise ValueError("stop: an empty text would end every answer at once")
        if self.top_k == -1:
            self.top_k = 0
        return self


class CompletionAsked(Asked):
    """`POST /v1/completions`. A prompt is a text or token ids, or a list of either."""

    prompt: str | Ids | list[str] | list[Ids]
    max_tokens: int = Field(default=16, ge=1)
    logprobs: Annotated[StrictInt, Field(ge=0, le=MOST_LIKELIEST)] | None = None

    @property
    def likeliest(self) -> int | None:
        return self.logprobs

    @property
    def prompts(self) -> Sequence[str | list[int]]:
        """Each prompt by itself."""
        given: Any = self.prompt
        return [given] if isinstance(given, str) or (given and isinstance(given[0], int)) else given


class TextPart(BaseModel):
    """A part of a message; this server reads text only."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatAsked(Asked):
    """`POST /v1/chat/completions`. Without a limit the answer may go on to the end of the context."""

    messages: list[Message] = Field(min_length=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: StrictBool = False
    top_logprobs: StrictInt = Field(default=0, ge=0, le=MOST_LIKELIEST)

    @field_validator("top_logprobs")
    @classmethod
    def _beside(cls, value: int, info: ValidationInfo) -> int:
        if value and not info.data.get("logprobs"):
            raise ValueError("it needs logprobs to be true")
        return value

    @property
    def likeliest(self) -> int | None:
        return self.top_logprobs if self.logprobs else None

    @property
    def limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens
