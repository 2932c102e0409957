"""Several web servers over one engine, each in a process of its own, for more tokens than one process can write."""

import asyncio
import logging
import select
import shutil
import socket
import tempfile
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any, Protocol

from kernels.measure.cpu_threads import usable_cpus
from kernels.serve import web_process
from kernels.serve.client import EngineClient
from kernels.serve.encoder import RequestVectors
from kernels.serve.engine_process import EngineProcess
from kernels.serve.engine_state import EngineState
from kernels.serve.errors import ApiError
from kernels.serve.handing import hand_over
from kernels.serve.messages import Added, Cancelled, News
from kernels.serve.receiving import read_arrived
from kernels.serve.sending import start_sender
from kernels.serve.spec import Spec
from kernels.serve.starting import settle
from kernels.serve.web_process import Drain, Failed, Hurry, Site

logger = logging.getLogger(__name__)
CPUS_FOR_SEVERAL, USERS_FOR_SEVERAL, SEVERAL = 8, 64, 4
"""From so many CPUs, and so many requests at once, there are so many processes. One writes some 35,000 to 55,000 tokens
a second, which an engine of 128 requests makes.
"""
RESTART_SECONDS = 1.0
"""The pause before a web server that has ended is started again."""
RETRY_SECONDS = 0.01
"""How long a connection waits for a process that has room for it, before it is tried again."""


def processes_for(spec: Spec, cpus: int) -> int:
    """How many web servers serve what `spec` asks for on so many CPUs; 1: none beside the engine's owner.

    A model on the CPU needs its cores for itself.
    """
    several = cpus >= CPUS_FOR_SEVERAL and spec.running >= USERS_FOR_SEVERAL and spec.device != "cpu"
    return spec.web_processes or (SEVERAL if several else 1)


class WebServers(Protocol):
    """One web server or several: they serve the connections that they are given."""

    def take(self, connection: socket.socket) -> None: ...

    async def drain(self, seconds: float) -> None: ...

    def hurry(self) -> None: ...


@asynccontextmanager
async def web_servers(engine: EngineProcess, site: Site) -> AsyncIterator[WebServers]:
    """The web servers of one engine: one in this process, or several in processes of their own.

    Raises ValueError with a sentence where the model's tokenizer cannot be read.
    """
    count = processes_for(site.spec, usable_cpus())
    if count > 1:
        site.text()
        processes = WebProcesses(engine, site, count)
        engine.listener = processes
        settle()
        try:
            processes.start()
            yield processes
        finally:
            processes.close()
        return
    from kernels.serve.web import WebServer

    engine.listener = client = EngineClient(engine.send, site.wait_seconds)
    client.told(engine.state)
    async with WebServer(site.app(client), client) as server:
        settle()
        yield server


@dataclass
class _Place:
    """A web server's process, with its ends of pipe and socket, and the names of its open requests."""

    number: int
    process: BaseProcess
    outbox: "SimpleQueue[Any]"
    control: socket.socket
    open: set[str] = field(default_factory=set)


class WebProcesses:
    """The processes, and their engine's `EngineListener`. All methods belong to one event loop.

    A request's name begins with the number of its process and a colon. An engine's messages are read once, here, and
    each process gets its own part of them.
    """

    def __init__(self, engine: EngineProcess, site: Site, count: int) -> None:
        self._engine, self._site = engine, site
        self._folder = tempfile.mkdtemp(prefix="kernels-serve-metrics-")
        self._places: dict[int, _Place] = {}
        self._waiting: deque[socket.socket] = deque()
        self._next = 0
        self._count = count
        self._draining = False
        self._state = replace(engine.state)
        self._ended = asyncio.Event()

    def start(self) -> None:
        """Starts all processes."""
        for number in range(self._count):
            self._start(number)

    def take(self, connection: socket.socket) -> None:
        """Hands a connection to one process after another; to the next one where one has no room for it."""
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            self._hand_waiting()

    async def drain(self, seconds: float) -> None:
        """Ends once the open requests have ended. Those that go on for longer than this get an error."""
        self._draining = True
        self._send_all(Drain(seconds))
        while self._places:
            self._ended.clear()
            await self._ended.wait()

    def close(self) -> None:
        """Ends what still runs."""
        self._draining = True
        for place in self._places.values():
            place.process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def told(self, state: EngineState) -> None:
        """Tells all processes of the engine's state."""
        self._state = replace(state)  # another thread pickles it, later
        self._send_all(self._state)

    def received(self, message: Any) -> None:
        """Gives each process its part of what the engine says."""
        if isinstance(message, News):
            for number, part in _divided(message).items():
                if (place := self._places.get(number)) is not None:
                    place.open.difference_update(name for name, _, reason in part.tokens if reason)
                    place.open.difference_update(part.refusals)
                    place.outbox.put(part)
        elif isinstance(message, RequestVectors):
            for name, vector in message.found.items():
                if (place := self._places.get(_number(name))) is not None:
                    place.open.discard(name)
                    place.outbox.put(RequestVectors({name: vector}))

    def failed(self, error: ApiError) -> None:
        """Tells all processes that the engine has died."""
        for place in self._places.values():
            place.open.clear()
        self._send_all(Failed(error.message))

    def hurry(self) -> None:
        """Open requests are told now that the server ends, and have little time to read it."""
        self._send_all(Hurry())

    def end_open(self) -> None:
        """As `hurry`: the engine has been ended."""
        self.hurry()

    def _send_all(self, message: Any) -> None:
        for place in self._places.values():
            place.outbox.put(message)

    def _start(self, number: int) -> None:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        control, their_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for each in (control, their_control):
            each.setblocking(False)
        given = (self._site, number, theirs, their_control, self._folder)
        process = context.Process(target=web_process.main, args=given, name=f"web {number}")
        process.start()
        theirs.close()
        their_control.close()
        place = self._places[number] = _Place(number, process, SimpleQueue(), control)
        arrived = select.poll()
        arrived.register(ours, select.POLLIN)
        asyncio.get_running_loop().add_reader(ours.fileno(), self._read, ours, arrived, place)
        place.outbox.put(self._state)
        start_sender(ours, place.outbox)

    def _read(self, pipe: Connection, arrived: select.poll, place: _Place) -> None:
        if not read_arrived(pipe, arrived, lambda message: self._take(message, place)):
            asyncio.get_running_loop().remove_reader(pipe.fileno())
            self._lost(place)

    def _take(self, message: Any, place: _Place) -> None:
        if isinstance(message, Added):
            place.open.add(message.name)
        elif isinstance(message, Cancelled):
            place.open.discard(message.name)
        self._engine.send(message)

    def _lost(self, place: _Place) -> None:
        """A process has ended: nobody waits for its requests any more."""
        for name in place.open:
            self._engine.send(Cancelled(name))
        place.outbox.put(None)
        place.control.close()
        del self._places[place.number]
        self._ended.set()
        if not self._draining:
            logger.error("web server %d has ended; it is started again", place.number)
            asyncio.get_running_loop().call_later(RESTART_SECONDS, self._start_again, place.number)

    def _start_again(self, number: int) -> None:
        if not self._draining:
            self._start(number)

    def _hand_waiting(self) -> None:
        while self._waiting:
            for number in range(self._next, self._next + self._count):
                place = self._places.get(number % self._count)
                if place is not None and _handed(place.control, self._waiting[0]):
                    self._next = (place.number + 1) % self._count
                    self._waiting.popleft().close()
                    break
            else:
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self._hand_waiting)
                return


def _handed(control: socket.socket, connection: socket.socket) -> bool:
    try:
        hand_over(control, connection)
    except OSError:  # it is full, or its process has ended, which the pipe tells
        return False
    return True


def _number(name: str) -> int:
    return int(name.partition(":")[0])


def _divided(news: News) -> dict[int, News]:
    """The parts of the news by the processes' numbers; without the report, which the state has."""
    found: dict[int, News] = {}
    for event in news.tokens:
        number = _number(event[0])
        if number not in found:
            found[number] = News()
        found[number].tokens.append(event)
    for name in ("refusals", "cached", "logprobs"):
        for request, value in getattr(news, name).items():
            getattr(found.setdefault(_number(request), News()), name)[request] = value
    return found
