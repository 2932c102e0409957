"""The server's side of the engine's process: starts it, starts it again when it dies, and hands its tokens on."""

import asyncio
import itertools
import logging
import math
import select
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any, NamedTuple

from kernels.ops.sampling import GREEDY, Sampling
from kernels.serve import worker
from kernels.serve.encoder import RequestVectors
from kernels.serve.errors import ApiError
from kernels.serve.hanging import ON_CPU_SECONDS, ON_GPU_SECONDS, SignsOfLife
from kernels.serve.messages import Added, Cancelled, Declined, EngineReport, News, Ping, Ready, Starting, Stop
from kernels.serve.requests import Logprobs
from kernels.serve.sending import start_sender
from kernels.serve.spec import Spec

logger = logging.getLogger(__name__)
RESTART_SECONDS = 1.0
"""The pause before a dead engine is started again; it doubles each time that one dies before it is ready."""
LONGEST_PAUSE = 60.0
STOP_SECONDS = 10.0
REAP_SECONDS = 5.0
"""How long the end of a dead process is waited for, so that its exit code is known."""


class TokenEvent(NamedTuple):
    """One token of an answer, or its end: `token` None only tells the reason. `cached` tokens of the prompt were read
    from the prefix cache.
    """

    token: int | None
    reason: str | None
    cached: int = 0
    logprobs: Logprobs | None = None


class EngineClient:
    """An engine in a process of its own. All methods belong to one event loop."""

    def __init__(
        self,
        spec: Spec,
        wait_seconds: float = math.inf,
        main: Callable[[Spec, Connection], None] = worker.main,
        hang_seconds: float | None = None,
    ) -> None:
        """A request that waits for its first step longer than `wait_seconds` is given up. `main` is what the process
        runs: `kernels.serve.encoder.main` for a model that gives vectors. After `hang_seconds` without a sign of life
        the engine is ended and started again; None: as `kernels.serve.hanging` has it.
        """
        self.spec, self.wait_seconds, self._main, self._hang_seconds = spec, wait_seconds, main, hang_seconds
        self.ready: Ready | None = None
        self.phase: str | None = None
        """What the engine does while it starts; None if there is no engine."""
        self.seconds: dict[str, float] = {}
        """The seconds of each phase of the last start that ended."""
        self.declined: str | None = None
        self.report = self.ended = EngineReport()
        """The newest report of the engine, and the last of those before it together, whose counters go on."""
        self.restarts = self.hangs = 0
        self.process: BaseProcess | None = None
        self.changed = asyncio.Event()
        """Set when the engine becomes ready, declines, or dies."""
        self._names = itertools.count()
        self._open: dict[str, asyncio.Queue[Any]] = {}
        """The queue of what comes for each open request: TokenEvent, ApiError, or a vector."""
        self._outbox: SimpleQueue[Any] = SimpleQueue()
        self._stopping = self._served = False
        self._ending: ApiError | None = None
        self._early_deaths = 0
        self._restart: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._signs = SignsOfLife(self._ask)
        self._began = self._told = 0.0

    @property
    def state(self) -> str:
        """What the engine does, for people: `ready`, or why not yet."""
        if self.ready is not None:
            return "ready"
        if self.phase is None:
            return "the engine has ended and is started again"
        return f"the engine is starting: {self.phase}, {time.monotonic() - self._began:.0f} s since its start"

    def start(self) -> None:
        """Starts the process. It is ready when `ready` is set."""
        self.phase, self._began = "process", time.monotonic()
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        self._outbox = SimpleQueue()
        self.process = context.Process(target=self._main, args=(self.spec, theirs), name="engine", daemon=True)
        self.process.start()
        theirs.close()
        arrived = select.poll()
        arrived.register(ours, select.POLLIN)
        asyncio.get_running_loop().add_reader(ours.fileno(), self._read, ours, arrived)
        start_sender(ours, self._outbox)

    async def stop(self) -> None:
        """Ends the process. Open requests get an error."""
        self._stopping = True
        for task in (self._restart, self._watch):
            if task is not None:
                task.cancel()
        process = self.process
        if process is None:
            return
        if self.ready:
            self._outbox.put(Stop())
        else:
            process.kill()  # it takes no SIGTERM, and reads nothing before it is ready
        await asyncio.to_thread(process.join, STOP_SECONDS)
        if process.is_alive():
            process.kill()
        self.end_open()

    def not_ready(self) -> ApiError:
        """What a request is told meanwhile."""
        return ApiError(503, f"{self.state}; ask again in a moment", code="engine_not_ready")

    def end_open(self) -> None:
        """Ends all open requests with an error, and those that still come, because the server ends."""
        self._ending = ApiError(503, "the server is shutting down")
        self._fail(self._ending)

    async def answer(
        self,
        ids: list[int],
        max_tokens: int,
        sampling: Sampling,
        stop_ids: frozenset[int],
        logprobs: int | None = None,
    ) -> AsyncGenerator[list[TokenEvent], None]:
        """The tokens of one request's answer, each time all that have come. Leaving the iteration early cancels it.
        `logprobs` as `kernels.serve.requests.Request` has it.

        Raises ApiError when the engine is not ready, refuses or dies.
        """
        with self._opened(ids, max_tokens, sampling, stop_ids, logprobs) as queue:
            while True:
                found = [await queue.get()]
                while not queue.empty():
                    found.append(queue.get_nowait())
                events = [each for each in found if isinstance(each, TokenEvent)]
                if events and events[-1].reason == "deadline":
                    raise self._overloaded()
                if events:
                    yield events
                if events and events[-1].reason:
                    return
                for each in found:
                    if isinstance(each, ApiError):
                        raise each

    async def embed(self, ids: list[int]) -> list[float]:
        """The vector of one text. Raises ApiError as `answer` does."""
        with self._opened(ids, 1, GREEDY, frozenset()) as queue:
            found = await queue.get()
        if isinstance(found, ApiError):
            raise found
        if isinstance(found, TokenEvent):
            raise self._overloaded()
        vector: list[float] = found
        return vector

    @contextmanager
    def _opened(
        self,
        ids: list[int],
        max_tokens: int,
        sampling: Sampling,
        stop_ids: frozenset[int],
        logprobs: int | None = None,
    ) -> Iterator[asyncio.Queue[Any]]:
        """Sends a request to the engine and yields the queue of what comes for it. Leaving before its end cancels it.

        Raises ApiError when the engine is not ready.
        """
        if self._ending is not None:
            raise self._ending
        if self.ready is None:
            raise self.not_ready()
        name, queue = str(next(self._names)), asyncio.Queue[Any]()
        self._open[name] = queue
        self._outbox.put(Added(name, ids, max_tokens, sampling, stop_ids, self.wait_seconds, logprobs))
        try:
            yield queue
        finally:
            if self._open.pop(name, None) is not None:
                self._outbox.put(Cancelled(name))

    def _overloaded(self) -> ApiError:
        return ApiError(503, f"no place became free within {self.wait_seconds:g} seconds", code="overloaded")

    def _read(self, connection: Connection, arrived: select.poll) -> None:
        """Takes all messages that have arrived, so that tokens which came together are told together.

        The event loop reads them itself: a thread would wait for the loop to let go of the interpreter's lock.
        """
        try:
            while True:
                self._take(connection.recv(), connection)
                if not arrived.poll(0):
                    return
        except (EOFError, OSError):
            self._died(connection, "the engine died while it served this request")

    def _ask(self) -> None:
        self._outbox.put(Ping())

    async def _end_when_hung(self, connection: Connection, seconds: float) -> None:
        await self._signs.end(seconds)
        assert self.process is not None
        self.hangs += 1
        logger.error("the engine gave no sign of life for %g s; its process is killed", seconds)
        self.process.kill()
        self._died(connection, f"the engine gave no sign of life for {seconds:g} s while it served this request")

    def _take(self, message: Any, connection: Connection) -> None:
        self._signs.heard = True
        if isinstance(message, Starting):
            if self.phase == "process":
                self._told = time.monotonic()
            self.phase = message.phase
        elif isinstance(message, Ready):
            self.ready, self._served, self._early_deaths = message, True, 0
            self.seconds = {"process": self._told - self._began, **message.seconds}
            self.seconds["other"] = max(0.0, time.monotonic() - self._began - sum(self.seconds.values()))
            self.changed.set()
            seconds = self._hang_seconds or (ON_GPU_SECONDS if message.on_gpu else ON_CPU_SECONDS)
            self._watch = asyncio.get_running_loop().create_task(self._end_when_hung(connection, seconds))
        elif isinstance(message, Declined) and message.of_memory and self._served:
            logger.error("the engine cannot start again yet: %s", message.sentence)
        elif isinstance(message, Declined):
            self.declined = message.sentence
            self.changed.set()
        elif isinstance(message, News):
            self._hand_on(message)
        elif isinstance(message, RequestVectors):
            for name, vector in message.found.items():
                queue = self._open.pop(name, None)
                if queue is not None:
                    queue.put_nowait(vector)

    def _hand_on(self, news: News) -> None:
        logprobs = {name: iter(each) for name, each in news.logprobs.items()}
        for name, token, reason in news.tokens:
            queue = self._open.get(name)
            if queue is not None:
                own = next(logprobs[name]) if name in logprobs else None
                queue.put_nowait(TokenEvent(token, reason, news.cached.get(name, 0), own))
            if reason:
                self._open.pop(name, None)
        for name, sentence in news.refusals.items():
            queue = self._open.pop(name, None)
            if queue is not None:
                queue.put_nowait(ApiError(400, sentence, code="context_length_exceeded"))
        if news.report is not None:
            self.report = EngineReport(**news.report)

    def _died(self, connection: Connection, sentence: str) -> None:
        asyncio.get_running_loop().remove_reader(connection.fileno())
        was_ready, self.ready, self.phase = self.ready is not None, None, None
        self.ended, self.report = self.ended.counting(self.report), EngineReport()
        self._outbox.put(None)
        self._fail(ApiError(500, f"{sentence}; it is being started again"))
        self.changed.set()
        if self._stopping or self.declined:
            return
        self._early_deaths = 0 if was_ready else self._early_deaths + 1
        self._restart = asyncio.get_running_loop().create_task(self._start_again())

    async def _start_again(self) -> None:
        assert self.process is not None
        if self._watch is not None:
            self._watch.cancel()
        pause = min(LONGEST_PAUSE, RESTART_SECONDS * 2**self._early_deaths)
        await asyncio.to_thread(self.process.join, REAP_SECONDS)
        code = self.process.exitcode
        logger.error("the engine's process has ended (exit code %s); it is started again in %g s", code, pause)
        await asyncio.sleep(pause)
        self.restarts += 1
        self.start()

    def _fail(self, error: ApiError) -> None:
        waiting, self._open = self._open, {}
        for queue in waiting.values():
            queue.put_nowait(error)
