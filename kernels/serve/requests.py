"""A request as the scheduler sees it, and the part of it that one step computes."""

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from kernels.ops.sampling import GREEDY, Sampling

FinishReason = Literal["stop", "length", "cancelled", "deadline"]
RequestState = Literal["waiting", "running", "finished"]


@dataclass(eq=False)
class Request:
    """`ids` is the prompt followed by the answer as far as the host knows it.

    `scheduled` counts the answer's tokens that steps have been asked for, so some more than are known.
    `computed` counts the tokens whose keys and values have been asked for. `deadline`, in seconds of the scheduler's
    clock, is when a request that still waits for its first step is given up.
    """

    name: str
    ids: list[int]
    max_tokens: int
    sampling: Sampling = GREEDY
    stop_ids: frozenset[int] = frozenset()
    deadline: float = math.inf
    logprobs: int | None = None
    """So many of the likeliest tokens are told beside each token, with log probabilities; None: none are wanted."""

    prompt_length: int = field(init=False)
    arrival: int = field(init=False, default=-1)
    state: RequestState = field(init=False, default="waiting")
    reason: FinishReason | None = field(init=False, default=None)
    scheduled: int = field(init=False, default=0)
    computed: int = field(init=False, default=0)
    cached: int = field(init=False, default=0)
    """Tokens of the prompt whose keys and values the prefix cache had when the request was first admitted."""
    slot: int = field(init=False, default=-1)
    """The place of its last token on the device while it runs."""
    admitted: int = field(init=False, default=0)
    """How often it was admitted: each time it gets a slot and pages."""
    pages: list[int] = field(init=False, default_factory=list)
    names: list[bytes] = field(init=False, default_factory=list)
    """Digests of its full pages, as far as they have been needed."""
    remembered: int = field(init=False, default=0)
    """Its first pages whose names the prefix cache has been told."""

    def __post_init__(self) -> None:
        self.prompt_length = len(self.ids)

    @property
    def total(self) -> int:
        """Tokens of the prompt and of the answer so far, those on their way included."""
        return self.prompt_length + self.scheduled

    @property
    def answered(self) -> int:
        """Tokens of the answer that the host knows."""
        return len(self.ids) - self.prompt_length

    @property
    def in_flight(self) -> int:
        """Tokens of the answer that a step was asked for and that the host does not know yet."""
        return self.scheduled - self.answered


class Part(NamedTuple):
    """What one step computes of a request: its tokens `start` … `start + tokens`; `samples` says that the next one is
    chosen after them. `place` is that token's place in the sequence, which its draw depends on.
    """

    request: Request
    start: int
    tokens: int
    samples: bool
    place: int


@dataclass(frozen=True)
class Step:
    """One pass: parts of a single token each, and chunks of prompts; or, without chunks, `count` passes one after the
    other, each of which takes the tokens that the one before chose.
    """

    singles: list[Part] = field(default_factory=list)
    chunks: list[Part] = field(default_factory=list)
    count: int = 1

    @property
    def parts(self) -> list[Part]:
        """The singles, then the chunks: the order of the ids that the step gives back."""
        return self.singles + self.chunks


class Logprobs(NamedTuple):
    """The natural logarithm of a token's probability, and the likeliest tokens with theirs, the likeliest first. It is
    the model's distribution, before temperature, top-k and top-p.
    """

    own: float
    likeliest: list[tuple[int, float]]


class Token(NamedTuple):
    """A token that a request was answered with, or with `token` None only its end. `reason` is given at the end,
    `logprobs` where the request asks for them.
    """

    request: Request
    token: int | None
    reason: FinishReason | None
    logprobs: Logprobs | None = None
