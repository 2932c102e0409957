"""The messages between the server and the engine's process, which a pipe carries."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kernels.ops.sampling import Sampling
from kernels.plan import Serving
from kernels.server.scheduler.requests import LogitsOptions, Logprobs


class AddRequest(NamedTuple):
    """To the engine: a new request, which may wait `seconds`; `logprobs` and `echo` as in `Request`."""

    name: str
    ids: list[int]
    max_tokens: int
    sampling: Sampling
    stop_ids: frozenset[int]
    seconds: float
    logprobs: int | None = None
    options: LogitsOptions | None = None
    echo: bool = False


class AbortRequest(NamedTuple):
    """To the engine: the client no longer waits for this request."""

    name: str


class Stop(NamedTuple):
    """To the engine: end the process."""


class Ping(NamedTuple):
    """To the engine: answer with a report, as a sign of life."""


class Starting(NamedTuple):
    """From the engine, while it starts: the phase that begins."""

    phase: str


@dataclass(frozen=True)
class Ready:
    """From the engine, once: it is ready, for sequences of up to `longest` tokens with ids below `vocabulary`.

    `serving` holds the settings that it runs with; an encoder has none (None). `seconds` are those of the phases of its
    start, `graphs` the number of passes that it captured and kept, `graphs_left` of those that it captures when it is
    idle. A prompt that is read delays a token of others by
    `pause_ms` at most, as it was timed, or as a CPU's was estimated.
    """

    longest: int
    vocabulary: int
    device: str
    serving: Serving | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    graphs: int = 0
    graphs_left: int = 0
    on_gpu: bool = False
    pause_ms: float | None = None

    @property
    def captured(self) -> dict[str, int]:
        """The graphs, for the line of the start."""
        return {"graphs": self.graphs, "graphs_left": self.graphs_left}


@dataclass(frozen=True)
class Declined:
    """From the engine, instead of `Ready`: why it cannot serve; `for_now` it lacks memory or open files."""

    sentence: str
    for_now: bool = False


@dataclass
class EngineReport:
    """The engine's state: numbers of requests and KV pages now, and counters since its start."""

    running: int = 0
    waiting: int = 0
    free_pages: int = 0
    pages: int = 0
    preempted: int = 0
    steps: int = 0
    megakernel_steps: int = 0
    megakernel_sequences: int = 0
    """The most sequences in a step of the megakernel; 0 if there is no megakernel."""
    graphs_left: int = 0
    """The passes that are captured when the engine is idle; until then larger ones serve in their place."""

    def counting(self, ended: "EngineReport") -> "EngineReport":
        """The same with the counters of an engine that has ended added."""
        return replace(
            self,
            preempted=self.preempted + ended.preempted,
            steps=self.steps + ended.steps,
            megakernel_steps=self.megakernel_steps + ended.megakernel_steps,
        )


class Refusal(NamedTuple):
    """Why a request can never be served: a sentence, with the parameter at fault and OpenAI's code if it has one."""

    sentence: str
    param: str | None = None
    code: str | None = None


@dataclass
class EngineOutputs:
    """From the engine: what happened since the last outputs.

    `tokens` are (request's name, token or None, reason for its end or None), in order. `refusals` are by
    request, `cached` the prompt tokens that the prefix cache had, by request. `logprobs` holds, by request, those of
    its tokens in `tokens`, in the same order, if it asked for them, and with its first token `prompt_logprobs` those of
    its prompt's tokens from the second on.
    """

    tokens: list[tuple[str, int | None, str | None]] = field(default_factory=list)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    cached: dict[str, int] = field(default_factory=dict)
    logprobs: dict[str, list[Logprobs]] = field(default_factory=dict)
    prompt_logprobs: dict[str, list[Logprobs]] = field(default_factory=dict)
    report: dict[str, int] | None = None


class RequestsFailed(NamedTuple):
    """To web servers: the engine of these requests has died, one of several. Open ones get the sentence."""

    names: list[str]
    sentence: str


class RequestVectors(NamedTuple):
    """From an encoder: the vectors of requests by their names."""

    vectors: dict[str, list[float]]
