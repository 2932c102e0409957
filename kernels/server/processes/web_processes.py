"""Several web servers over one engine, each a process: one cannot write as many tokens as the engine makes."""

import asyncio
import itertools
import logging
import shutil
import socket
import tempfile
from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any

from kernels.server.http.engine_state import EngineState
from kernels.server.http.errors import ApiError
from kernels.server.messages import AbortRequest, AddRequest, EngineOutputs, Ping, RequestsFailed, RequestVectors
from kernels.server.processes import web_process
from kernels.server.processes.connections import GivenConnections
from kernels.server.processes.engine_process import EngineProcess
from kernels.server.processes.pipes import start_process
from kernels.server.processes.replicas import EngineReplicas
from kernels.server.processes.restarts import ON_GPU_SECONDS, REAP_SECONDS, EngineHeartbeat, Restarts, end_of
from kernels.server.processes.web_process import Alive, Drain, EndOpen, EngineDied, WebSpec

logger = logging.getLogger(__name__)
LAST_SECONDS = 6.0
"""How long after its open requests were to end a web server may live on."""
MAX_WAITING = 1024
"""So many connections wait for a web server; those behind them wait in the system's queue."""
RETRY_SECONDS = 0.01
"""How long connections wait until web servers are asked again."""


@dataclass
class _Process:
    """The process of a web server."""

    number: int
    process: BaseProcess
    outbox: "SimpleQueue[Any]"
    given: GivenConnections
    open: set[str] = field(default_factory=set)
    """The names of its open requests."""
    ready: bool = False
    heartbeat: EngineHeartbeat | None = None
    watch: asyncio.Task[None] | None = None


class WebProcesses:
    """The processes of several web servers, which as the engine's `EngineListener` gives each its messages, in one
    event loop. A request's name begins with its process's number, which none ever has again.
    """

    def __init__(self, engine: EngineProcess | EngineReplicas, web: WebSpec, count: int) -> None:
        self._engine, self._web, self._count = engine, web, count
        self._folder = tempfile.mkdtemp(prefix="kernels-serve-metrics-")
        self._state = replace(engine.state)
        self._processes: dict[int, _Process] = {}
        self._starts = itertools.count()
        self._restarts = [Restarts(f"web server {index}", partial(self._restart, index)) for index in range(count)]
        self._waiting: deque[socket.socket] = deque()
        self._next = 0
        self._draining = False
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        engine.listener = self

    def start(self) -> None:
        """Starts all processes. Raises OSError where there is no room for them."""
        for number in range(self._count):
            self._start(number)

    @property
    def full(self) -> bool:
        """Whether so many connections wait that no more should be accepted."""
        return len(self._waiting) >= MAX_WAITING

    def take(self, connection: socket.socket) -> None:
        """Gives connections to one process after another, past those without room. While none has room, it waits."""
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            self._deal()

    async def drain(self, seconds: float) -> None:
        self._draining = True
        while self._waiting:
            self._waiting.popleft().close()
        processes = [process.process for process in self._processes.values()]
        self._send_all(Drain(seconds))
        asyncio.get_running_loop().call_later(seconds + LAST_SECONDS, self._kill)
        while self._processes:
            self._ended.clear()
            await self._ended.wait()
        for process in processes:
            await end_of(process, REAP_SECONDS)

    def end_open(self) -> None:
        self._draining = True
        self._send_all(EndOpen())
        asyncio.get_running_loop().call_later(LAST_SECONDS, self._kill)

    def close(self) -> None:
        """Ends what still runs."""
        self._draining = True
        for process in self._processes.values():
            process.process.kill()
            process.process.join(REAP_SECONDS)
            process.given.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def state_changed(self, state: EngineState) -> None:
        """Tells all processes of the engine's state."""
        self._state = replace(state)  # another thread pickles it, later
        self._send_all(self._state)

    def received(self, message: Any) -> None:
        """Gives each process its part of what the engine says."""
        if isinstance(message, EngineOutputs):
            for number, part in _by_process(message).items():
                if (process := self._processes.get(number)) is not None:
                    process.open.difference_update(name for name, _, reason in part.tokens if reason)
                    process.open.difference_update(part.refusals)
                    process.outbox.put(part)
        elif isinstance(message, RequestVectors):
            for name, vector in message.vectors.items():
                if (process := self._processes.get(_number(name))) is not None:
                    process.open.discard(name)
                    process.outbox.put(RequestVectors({name: vector}))
        elif isinstance(message, RequestsFailed):
            for name in message.names:
                if (process := self._processes.get(_number(name))) is not None:
                    process.open.discard(name)
                    process.outbox.put(RequestsFailed([name], message.sentence))

    def engine_died(self, error: ApiError) -> None:
        """Tells all processes, whose open requests get the sentence."""
        for process in self._processes.values():
            process.open.clear()
        self._send_all(EngineDied(error.message))

    def _send_all(self, message: Any) -> None:
        for process in self._processes.values():
            process.outbox.put(message)

    def _kill(self) -> None:
        for process in self._processes.values():
            logger.error("web server %d has not ended in time; its process is killed", process.number)
            process.process.kill()

    def _start(self, number: int) -> None:
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        outbox = SimpleQueue[Any]()
        with theirs:
            control.setblocking(False)
            arguments = (self._web, f"{number}.{next(self._starts)}:", theirs, self._folder)
            try:
                process, _ = start_process(
                    web_process.main,
                    arguments,
                    f"web {number}",
                    outbox,
                    lambda message: self._take(message, started),
                    lambda: self._lost(started),
                )
            except BaseException:
                control.close()
                raise
        started = self._processes[number] = _Process(
            number, process, outbox, GivenConnections(control, self._given_back)
        )
        started.outbox.put(self._state)
        started.outbox.put(Ping())  # it gets connections once it has answered, and so knows the state

    def _restart(self, number: int) -> None:
        if not self._draining:
            self._start(number)

    def _take(self, message: Any, process: _Process) -> None:
        if process.heartbeat is not None:
            process.heartbeat.beat = True
        if isinstance(message, Alive):
            if not process.ready:
                process.ready = True
                process.heartbeat = EngineHeartbeat(lambda: process.outbox.put(Ping()))
                process.watch = self._task(self._kill_when_hung(process, process.heartbeat))
        elif isinstance(message, AddRequest):
            if self._state.ready is not None:  # else the process knows, or will, that the engine has died
                process.open.add(message.name)
                self._engine.send(message)
        elif isinstance(message, AbortRequest):
            process.open.discard(message.name)
            self._engine.send(message)

    async def _kill_when_hung(self, process: _Process, heartbeat: EngineHeartbeat) -> None:
        seconds = self._engine.hang_seconds or ON_GPU_SECONDS
        await heartbeat.end(seconds)
        logger.error("web server %d gave no sign of life for %g s; its process is killed", process.number, seconds)
        process.process.kill()

    def _lost(self, process: _Process) -> None:
        """A process has ended: nobody waits for its requests any more."""
        for name in process.open:
            self._engine.send(AbortRequest(name))
        if process.watch is not None:
            process.watch.cancel()
        process.outbox.put(None)
        del self._processes[process.number]
        process.given.close()
        self._ended.set()
        if not self._draining:
            self._task(self._restarts[process.number].again(process.process, process.ready))

    def _task(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _given_back(self, connection: socket.socket) -> None:
        if self._draining:
            connection.close()
        else:
            self.take(connection)

    def _deal(self) -> None:
        while self._waiting:
            for number in range(self._next, self._next + self._count):
                process = self._processes.get(number % self._count)
                if process is not None and process.ready and process.given.give(self._waiting[0]):
                    self._next = (process.number + 1) % self._count
                    self._waiting.popleft()
                    break
            else:
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self._deal)
                return


def _number(name: str) -> int:
    return int(name.partition(".")[0])


def _by_process(outputs: EngineOutputs) -> dict[int, EngineOutputs]:
    """The parts of the outputs by the processes' numbers; without the report, which the state has."""
    by_process: dict[int, EngineOutputs] = {}
    for event in outputs.tokens:
        number = _number(event[0])
        if number not in by_process:
            by_process[number] = EngineOutputs()
        by_process[number].tokens.append(event)
    for name in ("refusals", "cached", "logprobs", "prompt_logprobs"):
        for request, value in getattr(outputs, name).items():
            getattr(by_process.setdefault(_number(request), EngineOutputs()), name)[request] = value
    return by_process
