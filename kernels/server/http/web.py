"""The web server of a model, over connections that are handed to it, and the sockets of one that listens."""

import asyncio
import contextlib
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kernels.server.http.client import EngineClient

KEEP_ALIVE_SECONDS = 75
"""How long a connection without a request stays open. A client that sends its next request while the server closes
gets a reset, so it is longer than the pauses of people and than those for which proxies and clients keep connections.
"""

BACKLOG = 2048
"""Connections that wait until they are taken."""
AT_ONCE = 64
"""So many of them are taken before the event loop does something else."""
PAUSE_SECONDS = 1.0
"""How long none is taken where there is no room for one, as for want of open files."""
LAST_SECONDS = 5
"""What open requests get to be told that the server ends, once they have had their time."""


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the program that it is part of."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class WebServer:
    """A web server of `app`, whose requests `client` sends to the engine. It listens at no address itself."""

    def __init__(self, app: Starlette, client: EngineClient) -> None:
        self._client = client
        self._settings = uvicorn.Config(app, log_level="warning", ws="none", timeout_keep_alive=KEEP_ALIVE_SECONDS)
        self._server = _Uvicorn(self._settings)
        self._serving: asyncio.Task[None] | None = None
        self._connecting: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        self._serving = asyncio.create_task(self._server.serve(sockets=[]))
        while not self._server.started and not self._serving.done():
            await asyncio.sleep(0.001)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        await self._end()

    @property
    def full(self) -> bool:
        return False

    def take(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(loop.connect_accepted_socket(lambda: FirstRequest(self._protocol), connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def drain(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._client.end_open)
        self._settings.timeout_graceful_shutdown = int(seconds + LAST_SECONDS)
        self._server.should_exit = True
        await self._end()

    def end_open(self) -> None:
        self._client.end_open()
        asyncio.get_running_loop().call_later(LAST_SECONDS, setattr, self._server, "force_exit", True)

    async def _end(self) -> None:
        assert self._serving is not None
        ended = self._serving.done()
        await self._serving
        if self._server.force_exit and not ended:  # uvicorn then leaves the application's own end out
            await self._server.lifespan.shutdown()

    def _protocol(self, kind: Any) -> asyncio.Protocol:
        protocol: asyncio.Protocol = kind(
            config=self._settings, server_state=self._server.server_state, app_state=self._server.lifespan.state
        )
        return protocol


async def listening(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at the host's addresses. Raises ValueError where one is in use, or is not this machine's."""
    try:
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port, start_serving=False)
        sockets = [item.dup() for item in server.sockets]
        server.close()
        for item in sockets:
            item.listen(BACKLOG)
    except OSError as error:
        raise ValueError(f"--host and --port: {error.strerror or error}") from error
    return sockets


@contextlib.contextmanager
def accepting(
    sockets: Sequence[socket.socket], take: Callable[[socket.socket], object], full: Callable[[], bool]
) -> Iterator[None]:
    """Within it `take` gets each connection to one of the sockets, unless all is `full`. They are closed at its end."""
    loop = asyncio.get_running_loop()

    def accept(listener: socket.socket) -> None:
        for _ in range(AT_ONCE):
            if full():
                return pause(listener)
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                return pause(listener)
            connection.setblocking(False)
            take(connection)

    def pause(listener: socket.socket) -> None:
        loop.remove_reader(listener)
        loop.call_later(PAUSE_SECONDS, again, listener)

    def again(listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            loop.add_reader(listener, accept, listener)

    for item in sockets:
        item.setblocking(False)
        loop.add_reader(item, accept, item)
    try:
        yield
    finally:
        for item in sockets:
            loop.remove_reader(item)
            item.close()


HEAD_END = re.compile(rb"\r?\n\r?\n")
LONGEST_HEAD = 1 << 16
"""A request with more bytes before its body goes to h11, which refuses it."""
NEEDS_H11 = re.compile(rb"\A[^\n]* HTTP/1\.0\r?\n|\nupgrade *:", re.IGNORECASE)
"""httptools drops the body of a request with `Upgrade`, which Java's HttpClient and `curl --http2` send and a server
may ignore (RFC 9110, 7.8), and uvicorn over it answers HTTP/1.0 in chunks. h11 does neither, at twice the time.
"""


class PlainH11Protocol(H11Protocol):
    """Ignores `Upgrade`, without uvicorn's warnings."""

    def _should_upgrade(self) -> bool:
        return False


class FirstRequest(asyncio.Protocol):
    """Reads a connection up to the end of its first request's head, and hands it to the protocol that serves it."""

    def __init__(self, make: Callable[[type[asyncio.Protocol]], asyncio.Protocol]) -> None:
        """`make` makes a protocol of a class."""
        self._make = make
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._head += data
        end = HEAD_END.search(self._head)
        if end is None and self._head[:1].isalpha() and len(self._head) <= LONGEST_HEAD:
            return
        needs_h11 = len(self._head) > LONGEST_HEAD if end is None else NEEDS_H11.search(self._head[: end.end()])
        protocol = self._make(PlainH11Protocol if needs_h11 else HttpToolsProtocol)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(self._head)
