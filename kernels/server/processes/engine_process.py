"""An engine in a process of its own: it is started, watched, and started again when it dies."""

import asyncio
import logging
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any

from kernels.server.http.engine_state import EngineListener, EngineState
from kernels.server.http.errors import ApiError
from kernels.server.messages import Declined, EngineOutputs, EngineReport, Ping, Ready, Starting, Stop
from kernels.server.processes import worker
from kernels.server.processes.pipes import start_process, stop_reading
from kernels.server.processes.restarts import ON_CPU_SECONDS, ON_GPU_SECONDS, EngineHeartbeat, Restarts, end_of
from kernels.server.spec import Spec

logger = logging.getLogger(__name__)
STOP_SECONDS = 10.0
DEAD = "the engine died while it served this request"


class EngineProcess:
    """The process of an engine. All methods belong to one event loop. `listener` is told what it says."""

    def __init__(
        self, spec: Spec, main: Callable[[Spec, Connection], None] = worker.main, hang_seconds: float | None = None
    ) -> None:
        """`main` is what the process runs: `encoder.main` for a model that gives vectors. After `hang_seconds` without
        a sign of life the engine is ended and started again; None: as `heartbeat` has it.
        """
        self.spec, self.hang_seconds, self._main = spec, hang_seconds, main
        self.state = EngineState()
        self.listener: EngineListener | None = None
        self.process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self.changed = asyncio.Event()
        """Set when the engine becomes ready, declines, or dies."""
        self._outbox: SimpleQueue[Any] = SimpleQueue()
        self._stopping = self._served = False
        self._restarts = Restarts("the engine's process", self.start, self._not_started)
        self._restart: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._heartbeat = EngineHeartbeat(lambda: self.send(Ping()))
        self._process_started = 0.0

    def send(self, message: Any) -> None:
        """Sends the engine a message. What a dead engine can no longer take is lost."""
        self._outbox.put(message)

    def start(self) -> None:
        """Starts the process. It serves when `state.ready` is set. Raises OSError where there is no room for it."""
        began, outbox, again = time.monotonic(), SimpleQueue[Any](), self.process is not None
        self.process, self._pipe = start_process(
            self._main, (self.spec,), "engine", outbox, self._take, lambda: self._report_death(DEAD)
        )
        self._outbox = outbox
        self.state.phase, self.state.began, self.state.not_started = "process", began, None
        self.state.restarts += again
        self._tell()

    async def stop(self) -> None:
        """Ends the process. Open requests get an error."""
        self._stopping = True
        for task in (self._restart, self._watch):
            if task is not None:
                task.cancel()
        process = self.process
        if process is None:
            return
        if self.state.ready:
            self.send(Stop())
        else:
            process.kill()  # it takes no SIGTERM, and reads nothing before it is ready
        await end_of(process, STOP_SECONDS)
        if process.is_alive():
            process.kill()
        if self.listener is not None:
            self.listener.end_open()

    def _tell(self) -> None:
        if self.listener is not None:
            self.listener.state_changed(self.state)

    def _not_started(self, why: str) -> None:
        self.state.not_started = why
        self._tell()

    async def _end_when_hung(self, seconds: float) -> None:
        await self._heartbeat.end(seconds)
        assert self.process is not None
        assert self._pipe is not None
        self.state.hangs += 1
        logger.error("the engine gave no sign of life for %g s; its process is killed", seconds)
        self.process.kill()
        stop_reading(self._pipe)
        self._report_death(f"the engine gave no sign of life for {seconds:g} s while it served this request")

    def _take(self, message: Any) -> None:
        self._heartbeat.beat = True
        state = self.state
        if isinstance(message, Starting):
            if state.phase == "process":
                self._process_started = time.monotonic()
            state.phase = message.phase
            self._tell()
        elif isinstance(message, Ready):
            state.ready, self._served = message, True
            seconds = {"process": self._process_started - state.began, **message.seconds}
            other = max(0.0, time.monotonic() - state.began - sum(seconds.values()))
            state.seconds = seconds | {"other": other}
            self._tell()
            self.changed.set()
            hung_after = self.hang_seconds or (ON_GPU_SECONDS if message.on_gpu else ON_CPU_SECONDS)
            self._watch = asyncio.get_running_loop().create_task(self._end_when_hung(hung_after))
        elif isinstance(message, Declined) and message.for_now and self._served:
            state.not_started = message.sentence
            logger.error("the engine cannot start again yet: %s", message.sentence)
        elif isinstance(message, Declined):
            state.declined = message.sentence
            self._tell()
            self.changed.set()
        else:
            if isinstance(message, EngineOutputs) and message.report is not None:
                state.report = EngineReport(**message.report)
                self._tell()
            if self.listener is not None:
                self.listener.received(message)

    def _report_death(self, sentence: str) -> None:
        state = self.state
        was_ready, state.ready, state.phase = state.ready is not None, None, None
        state.ended, state.report = state.counted, EngineReport()
        self._outbox.put(None)
        self._tell()
        if self.listener is not None:
            self.listener.engine_died(ApiError(500, f"{sentence}; it is being started again"))
        self.changed.set()
        if self._stopping or state.declined:
            return
        if self._watch is not None:
            self._watch.cancel()
        assert self.process is not None
        self._restart = asyncio.get_running_loop().create_task(self._restarts.again(self.process, was_ready))
