"""The engine's process: loads the model, captures the graphs, and serves what comes through a pipe."""

import json
import select
import signal
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kernels.engine.plan_files import PlanRefused
from kernels.ops.sampling import Sampling
from kernels.plan import Serving
from kernels.serve.requests import Logprobs, Request

if TYPE_CHECKING:
    from kernels.serve.engine import Engine

REPORT_SECONDS = 0.25
"""How often the engine tells of itself while it works."""


@dataclass(frozen=True)
class Spec:
    """What to serve: a model's directory, or the name of a catalogue entry; with a plan, the plan's file.

    `context`, `running` and `kv_bytes` as `kernels.serve.sizing.RequestedSize`. `device` None takes the GPU if there is
    one.
    """

    model: str
    plan: str | None = None
    device: str | None = None
    dtype: str | None = None
    seed: int = 0
    context: int | None = None
    running: int = 64
    kv_bytes: int | None = None
    megakernel: bool = True
    """Whether the megakernel takes few sequences, where it serves the model and is faster."""


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


def main(spec: Spec, connection: Connection) -> None:
    """The process's main function. Ends at `Stop`, and when the other side of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the server drains first
    try:
        engine, ready = prepared(spec)
    except (ValueError, OSError, PlanRefused) as error:
        connection.send(Declined(str(error)))
        return
    connection.send(ready)
    try:
        serve(engine, connection)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def prepared(spec: Spec) -> "tuple[Engine, Ready]":
    """The engine with its model loaded and its graphs captured. Raises ValueError or PlanRefused with one sentence."""
    from kernels.serve.building import build

    return build(spec)


def serve(engine: "Engine", connection: Connection) -> None:
    """Runs steps until it is stopped or the pipe is closed, which raises EOFError. Waits only while there are none.

    While the server does not read, its news are gathered, so that the engine does not wait for it.
    """
    open_requests: dict[str, Request] = {}
    news, told = News(), 0.0
    arrived, has_room = select.poll(), select.poll()
    arrived.register(connection, select.POLLIN)
    has_room.register(connection, select.POLLOUT)
    while True:
        while engine.idle or arrived.poll(0):
            _take(engine, connection.recv(), open_requests, news)
            if news.refusals:
                break
        found = engine.run_step()
        made = Counter(each.request.name for each in found if each.request.cached and each.token is not None)
        for request, token, reason, logprobs in found:
            if request.name not in open_requests:
                continue
            if made.get(request.name) == request.answered:  # its first tokens
                news.cached[request.name] = request.cached
            news.tokens.append((request.name, token, reason))
            if logprobs is not None:
                news.logprobs.setdefault(request.name, []).append(logprobs)
            if reason:
                del open_requests[request.name]
        now = time.monotonic()
        if now - told > REPORT_SECONDS or engine.idle:
            news.report, told = asdict(_report(engine)), now
        if (news.tokens or news.refusals or news.report) and (engine.idle or has_room.poll(0)):
            connection.send(news)
            news = News()


def _take(engine: "Engine", message: Any, open_requests: dict[str, Request], news: News) -> None:
    if isinstance(message, Stop):
        raise EOFError
    if isinstance(message, Cancelled):
        request = open_requests.pop(message.name, None)
        if request is not None:
            engine.cancel(request)
        return
    name, ids, max_tokens, sampling, stop_ids, seconds, logprobs = message
    request = Request(name, ids, max_tokens, sampling, stop_ids, time.monotonic() + seconds, logprobs)
    try:
        engine.add(request)
    except ValueError as error:
        news.refusals[name] = str(error)
        return
    open_requests[name] = request


def _report(engine: "Engine") -> EngineReport:
    scheduler = engine.scheduler
    few = engine.backends[0].few
    return EngineReport(
        running=len(scheduler.running),
        waiting=len(scheduler.waiting),
        free_pages=scheduler.pages.free,
        pages=scheduler.limits.pages - 1,
        preempted=scheduler.preempted,
        steps=engine.steps,
        megakernel_steps=engine.steps_of[0] if few else 0,
        megakernel_sequences=few,
    )


def configuration(spec: Spec) -> tuple[Path | None, dict[str, Any]]:
    """The model's directory, None for a catalogue entry, and its configuration. Raises ValueError with one sentence."""
    from kernels.model_files import catalogue

    directory = Path(spec.model)
    if not directory.is_dir():
        try:
            return None, catalogue.entry(spec.model)[0]
        except KeyError as error:
            raise ValueError(f"--model: {spec.model} is no directory, and {error.args[0]}") from error
    try:
        return directory, json.loads((directory / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{directory / 'config.json'}: it cannot be read: {error}") from error
