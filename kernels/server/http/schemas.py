"""What clients may ask, after OpenAI's API. Unknown fields are ignored; known ones that are not served are refused."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    Field,
    StrictBool,
    StrictInt,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from kernels.ops.sampling import TEMPERATURES
from kernels.server.http.chat_messages import Message
from kernels.server.http.errors import refused
from kernels.server.http.logits_fields import LogitsFields
from kernels.server.http.tools import ToolFields
from kernels.server.http.unserved import NONE, OF_OTHER_SERVERS, OFF, not_served
from kernels.server.scheduler.requests import prompt_too_long

MAX_CHOICES, MAX_STOPS, LONGEST_STOP, MAX_TOP_LOGPROBS, MAX_MESSAGES = 128, 16, 1000, 20, 16_384
MAX_STOP_IDS = 128
DEFAULT_TOKENS = 16
"""OpenAI's default of a completion's `max_tokens`."""
MAX_ANSWERS = 1024
"""The most answers to all prompts of a request together."""
MAX_ID = (1 << 31) - 1
"""No vocabulary has so many tokens: a larger `top_k` keeps no more of them."""
MIN_TOP_P = 1e-30
"""A smaller `top_p`, which may be 0 in float32, keeps the same tokens: those as likely as the likeliest."""
Ids = Annotated[list[StrictInt], Field(min_length=1, fail_fast=True)]
Texts = str | Ids | Annotated[list[str], Field(fail_fast=True)] | Annotated[list[Ids], Field(fail_fast=True)]
"""A text or token ids, or a list of either. Checking a list ends at its first mistake: a body holds millions."""
OWN_VARIABLES = {"messages", "tools", "documents", "add_generation_prompt"}
"""The variables of a chat template that follow from other fields of a request."""
UNSERVED: dict[str, tuple[Any, ...]] = {
    "min_p": (None, 0),
    "min_tokens": (None, 0),
    "best_of": (None, 1),
    "use_beam_search": OFF,
    "echo": OFF,
    "suffix": (None, ""),
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "guided_grammar": NONE,
    "allowed_token_ids": NONE,
    "bad_words": (None, []),
    "include_stop_str_in_output": OFF,
    "add_special_tokens": (None, True),
    "truncate_prompt_tokens": NONE,
    "prompt_embeds": NONE,
    "prompt_logprobs": NONE,
    "modalities": (None, ["text"]),
    "audio": NONE,
    "chat_template": NONE,
    "chat_template_kwargs": (None, {}),
    "documents": (None, []),
    "add_generation_prompt": (None, True),
    "continue_final_message": OFF,
} | OF_OTHER_SERVERS
"""Fields that would change the answer and that a kind of request lacks, with the values that change nothing."""


def without_nulls(data: Any) -> Any:
    """An object without its fields that are null: they count as not given."""
    return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else data


class StreamOptions(BaseModel):
    """`include_usage`: a last event with the counts of tokens."""

    include_usage: bool = False

    _given = model_validator(mode="before")(without_nulls)


FieldCheck = Callable[[Any, ValidatorFunctionWrapHandler, ValidationInfo], Any]


def texts_or_ids(max_texts: int, too_long: Callable[[int, int, ValidationInfo], str]) -> FieldCheck:
    """The check of a field of so many texts at most. It says once what the field may be, where pydantic would say it of
    each of the four kinds, and looks at no id of a list that is longer than the context's `longest`, whose sentence is
    `too_long` of both lengths.
    """

    def checked(value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        several = isinstance(value, list) and bool(value) and not isinstance(value[0], int)
        if several and len(value) > max_texts:
            raise ValueError(f"it must be a list of {max_texts:,} texts at most")
        longest = (info.context or {}).get("longest")
        lists = [item for item in (value if several else [value]) if isinstance(item, list)]
        tokens = max(map(len, lists), default=0)
        if longest and tokens > longest:
            raise refused(str(info.field_name), too_long(tokens, longest, info), "context_length_exceeded")
        try:
            return check(value)
        except ValidationError as error:
            raise ValueError("it must be a text, a list of token ids, or a list of either, and not empty") from error

    return checked


class GenerationRequest(LogitsFields, ABC):
    """What both kinds of request have; fields from `top_k` to `return_token_ids` are known from vLLM."""

    model: str
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    n: int = Field(default=1, ge=1, le=MAX_CHOICES)
    stop: list[Annotated[str, Field(max_length=LONGEST_STOP)]] = Field(default=[], max_length=MAX_STOPS)
    stop_token_ids: list[Annotated[StrictInt, Field(ge=0, le=MAX_ID)]] = Field(default=[], max_length=MAX_STOP_IDS)
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    return_token_ids: bool = False
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)

    @property
    @abstractmethod
    def likeliest(self) -> int | None:
        """So many of the likeliest tokens are told beside each token; None: no log probabilities are."""

    @property
    def limit(self) -> int | None:
        """The most tokens of an answer that are asked for; None: the request does not say."""
        return self.max_completion_tokens or self.max_tokens

    @abstractmethod
    def tokens(self, budget: int) -> int:
        """The most tokens of an answer where the context has room for `budget`, which holds `limit`."""

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        for name, value in data.items():
            harmless = (value,) if name in cls.model_fields else UNSERVED.get(name, (value,))
            if value not in harmless and not _without_effect(name, data):
                raise refused(name, not_served(name))
        fields = without_nulls(data)
        stop = fields.get("stop", [])
        if not isinstance(stop, str | list):
            raise refused("stop", "stop: it must be a text, or a list of texts")
        return fields | {"stop": [stop] if isinstance(stop, str) else stop}

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if any(not item for item in self.stop):
            raise refused("stop", "stop: an empty text would end every answer at once")
        self.temperature = max(self.temperature, TEMPERATURES[0]) if self.temperature > 0 else self.temperature
        self.top_k = 0 if self.top_k == -1 else min(self.top_k, MAX_ID)
        self.top_p = max(self.top_p, MIN_TOP_P) if self.top_p > 0 else self.top_p
        return self


def _without_effect(name: str, data: dict[str, Any]) -> bool:
    """Whether a field that is not served has no effect here: `min_tokens` where no token ends an answer."""
    return name == "min_tokens" and data.get("ignore_eos") is True and not data.get("stop_token_ids")


class CompletionRequest(GenerationRequest):
    """`POST /v1/completions`. Without a limit an answer has up to 16 tokens, as many as the context has room for."""

    max_tokens: int | None = Field(default=None, ge=0)
    """0: the prompt alone, with `echo`."""
    prompt: Texts
    echo: bool = False
    logprobs: Annotated[StrictInt, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None

    _validated = field_validator("prompt", mode="wrap")(
        texts_or_ids(
            MAX_ANSWERS,
            lambda tokens, longest, info: prompt_too_long(
                tokens, info.data.get("max_completion_tokens") or info.data.get("max_tokens") or 1, longest
            ),
        )
    )

    @property
    def likeliest(self) -> int | None:
        return self.logprobs

    def tokens(self, budget: int) -> int:
        return min(DEFAULT_TOKENS, budget) if self.limit is None else max(1, self.limit)

    @model_validator(mode="after")
    def _some_text(self) -> Self:
        if self.max_tokens == 0 and not self.echo:
            raise refused("max_tokens", "max_tokens: it must be 1 or more, or 0 with echo")
        return self

    @property
    def prompts(self) -> Sequence[str | list[int]]:
        """Each prompt by itself."""
        given: Any = self.prompt
        return [given] if isinstance(given, str) or (given and isinstance(given[0], int)) else given


class ChatCompletionRequest(GenerationRequest, ToolFields):
    """`POST /v1/chat/completions`. Without a limit the answer may go on to the end of the context."""

    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)
    """All messages together may have MAX_MESSAGES parts."""
    chat_template_kwargs: dict[str, Any] = {}
    """Further variables of the model's chat template, such as Qwen3's `enable_thinking`."""
    logprobs: StrictBool = False
    top_logprobs: StrictInt = Field(default=0, ge=0, le=MAX_TOP_LOGPROBS)

    @field_validator("messages", mode="before")
    @classmethod
    def _few_parts(cls, value: Any) -> Any:
        if isinstance(value, list) and len(value) <= MAX_MESSAGES:
            contents = [item.get("content") for item in value if isinstance(item, dict)]
            if sum(len(content) for content in contents if isinstance(content, list)) > MAX_MESSAGES:
                raise ValueError(f"they have more than {MAX_MESSAGES:,} parts")
        return value

    @model_validator(mode="after")
    def _one_demand(self) -> Self:
        if self.must_call and self.logits_options and self.logits_options.grammar:
            raise refused("tool_choice", "tool_choice: an answer that must be a call follows no other grammar")
        return self

    @field_validator("chat_template_kwargs")
    @classmethod
    def _further(cls, value: dict[str, Any]) -> dict[str, Any]:
        if own := sorted(value.keys() & OWN_VARIABLES):
            raise ValueError(f"{own[0]} is no variable that it may set")
        return value

    @field_validator("top_logprobs")
    @classmethod
    def _check_logprobs(cls, value: int, info: ValidationInfo) -> int:
        if value and not info.data.get("logprobs"):
            raise ValueError("it needs logprobs to be true")
        return value

    @property
    def likeliest(self) -> int | None:
        return self.top_logprobs if self.logprobs else None

    def tokens(self, budget: int) -> int:
        return self.limit or budget
