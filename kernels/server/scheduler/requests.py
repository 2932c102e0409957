"""A request with its state in the scheduler, and what one step computes of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from kernels.ops.sampling import GREEDY, Sampling

FinishReason = Literal["stop", "length", "complete", "failed", "cancelled", "deadline"]
"""`stop`: by a stop token. `complete`: its grammar ends. `failed`: the grammar takes no further token."""
RequestState = Literal["waiting", "running", "finished"]


def prompt_too_long(prompt: int, answer: int, longest: int, at_least: bool = False) -> str:
    """The sentence for prompt and answer beyond `longest` tokens. With `at_least` the prompt has more, or so many."""
    what = f"the prompt of {'at least ' * at_least}{prompt:,} and the answer of {answer:,} tokens together exceed"
    return _exceeded(longest, what)


def input_too_long(tokens: int, longest: int, at_least: bool = False) -> str:
    """The sentence for a text to be embedded of more than `longest` tokens; it may have more with `at_least`."""
    return _exceeded(longest, f"a text of {'at least ' * at_least}{tokens:,} tokens exceeds")


def _exceeded(longest: int, by: str) -> str:
    """LiteLLM knows the first words, LangChain the last one, and other clients read the number without commas."""
    return f"this model's maximum context length is {longest} tokens, which {by} (context_length_exceeded)"


class Grammar(NamedTuple):
    """What an answer must follow. A `choice` is a JSON list of texts, `lark` as llguidance's documents have it."""

    form: Literal["json_schema", "regex", "choice", "lark"]
    text: str


class LogitsOptions(NamedTuple):
    """What changes a request's logits before its tokens are drawn, as in OpenAI's and vLLM's APIs."""

    grammar: Grammar | None = None
    bias: Mapping[int, float] = {}
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0


class LogitsProcessor(Protocol):
    """What changes one request's logits, as the tokens of its answer demand."""

    def accept(self, token: int) -> FinishReason | None:
        """Takes note of the answer's next token. Returns why the answer ends with it, if it does."""


@dataclass(eq=False)
class Request:
    """A request and its state in the scheduler. `ids` are those of the prompt and, behind it, of the known answer.

    The host plans steps before it knows the tokens of earlier ones. So `num_scheduled_outputs`, the answer's tokens in
    all planned steps, may exceed the known ones, and `num_computed_tokens` counts the tokens whose keys and values
    planned steps have written or will write. A request that has had no step by `deadline`, in seconds of the
    scheduler's clock, ends.
    """

    name: str
    ids: list[int]
    max_tokens: int
    sampling: Sampling = GREEDY
    stop_ids: frozenset[int] = frozenset()
    deadline: float = math.inf
    logprobs: int | None = None
    """How many of the likeliest tokens come with each token, all with log probabilities; None: no log probabilities."""
    processor: LogitsProcessor | None = None
    echo: bool = False
    """Whether the prompt's tokens get log probabilities too, as many as those of the answer."""

    prompt_length: int = field(init=False)
    arrival: int = field(init=False, default=-1)
    state: RequestState = field(init=False, default="waiting")
    finish_reason: FinishReason | None = field(init=False, default=None)
    num_scheduled_outputs: int = field(init=False, default=0)
    num_computed_tokens: int = field(init=False, default=0)
    num_cached_tokens: int = field(init=False, default=0)
    """Tokens of the prompt whose keys and values the prefix cache had when the request was first admitted."""
    prompt_logprobs: dict[int, "Logprobs"] = field(init=False, default_factory=dict)
    """Those of the prompt's tokens by their places, in order, from the second token on."""
    slot: int = field(init=False, default=-1)
    """The index of its last token in the device's memory while the request runs."""
    admitted: int = field(init=False, default=0)
    """How often the request was admitted, that is got a slot and pages; again after each preemption."""
    pages: list[int] = field(init=False, default_factory=list)
    block_hashes: list[bytes] = field(init=False, default_factory=list)
    """Digests of its full KV pages, in order; each is computed when it is first needed."""
    num_cached_blocks: int = field(init=False, default=0)
    """How many of its pages, from the first on, are in the prefix cache."""

    def __post_init__(self) -> None:
        self.prompt_length = len(self.ids)

    @property
    def total(self) -> int:
        """Tokens of the prompt and of the answer, including the answer's tokens that planned steps will give."""
        return self.prompt_length + self.num_scheduled_outputs

    @property
    def num_uncomputed_tokens(self) -> int:
        """Tokens whose keys and values no planned step computes: 1 while the request is answered, token by token."""
        return self.prompt_length + self.num_scheduled_outputs - self.num_computed_tokens

    @property
    def answered(self) -> int:
        """Tokens of the answer that the host knows."""
        return len(self.ids) - self.prompt_length

    @property
    def in_flight(self) -> int:
        """Tokens of the answer in planned steps whose result the host does not know yet."""
        return self.num_scheduled_outputs - self.answered


class ScheduledTokens(NamedTuple):
    """What a step computes of a request: tokens from `start` to before `start + tokens`, and the next if it `samples`,
    whose index `place` its random numbers follow from.
    """

    request: Request
    start: int
    tokens: int
    samples: bool
    place: int


@dataclass(frozen=True)
class Step:
    """One pass of single tokens and chunks of prompts, or `count` passes without chunks, one behind the other."""

    decodes: list[ScheduledTokens] = field(default_factory=list)
    prefill_chunks: list[ScheduledTokens] = field(default_factory=list)
    count: int = 1

    @property
    def parts(self) -> list[ScheduledTokens]:
        """The decodes, then the chunks: the order of the ids that the step gives back."""
        return self.decodes + self.prefill_chunks

    @property
    def processes_logits(self) -> bool:
        """Whether some of its tokens are drawn from logits that a processor changes."""
        return any(part.samples and part.request.processor is not None for part in self.parts)


class Logprobs(NamedTuple):
    """Logarithms of a token's probability and of the likeliest, the largest first, before temperature and top-k."""

    own: float
    likeliest: list[tuple[int, float]]


class Token(NamedTuple):
    """A token of an answer, or with `token` None its end; `finish_reason` at the end, `logprobs` where asked for."""

    request: Request
    token: int | None
    finish_reason: FinishReason | None
    logprobs: Logprobs | None = None
