"""What the server and the engine's process send each other through the pipe."""

from dataclasses import dataclass, field
from typing import NamedTuple

from kernels.ops.sampling import Sampling
from kernels.plan import Serving
from kernels.serve.requests import Logprobs


class Added(NamedTuple):
    """A request for the engine. `seconds` is how long it may wait for its first step, `logprobs` as of a `Request`."""

    name: str
    ids: list[int]
    max_tokens: int
    sampling: Sampling
    stop_ids: frozenset[int]
    seconds: float
    logprobs: int | None = None


class Cancelled(NamedTuple):
    """The client no longer waits for this request."""

    name: str


class Stop(NamedTuple):
    """The process is to end."""


@dataclass(frozen=True)
class Ready:
    """The engine serves: `longest` tokens of a sequence, ids below `vocabulary`. `serving` is what it chose; None of an
    encoder.
    """

    longest: int
    vocabulary: int
    device: str
    serving: Serving | None = None


@dataclass(frozen=True)
class Declined:
    """The engine cannot serve, in a sentence."""

    sentence: str


@dataclass
class EngineReport:
    """The engine's state: requests, pages and counters since its start."""

    running: int = 0
    waiting: int = 0
    free_pages: int = 0
    pages: int = 0
    preempted: int = 0
    steps: int = 0
    megakernel_steps: int = 0
    megakernel_sequences: int = 0
    """The most sequences that the megakernel takes; 0: there is none."""


@dataclass
class News:
    """What a step gave: (name, token or None, reason or None), refusals by name, and perhaps a report. `logprobs` has
    those of a request's tokens, in their order, where it asks for them.
    """

    tokens: list[tuple[str, int | None, str | None]] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    cached: dict[str, int] = field(default_factory=dict)
    logprobs: dict[str, list[Logprobs]] = field(default_factory=dict)
    report: dict[str, int] | None = None
