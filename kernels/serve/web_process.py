"""A web server in a process of its own, beside others of one engine. Its owner hands it messages and connections.

The owner is `kernels.serve.web_processes`. Imports without the web server, whose metrics ask for their folder when they
are imported.
"""

import asyncio
import os
import select
import signal
import socket
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from kernels.serve.client import EngineClient
from kernels.serve.engine_state import EngineState
from kernels.serve.errors import ApiError
from kernels.serve.handing import handed_over
from kernels.serve.receiving import read_arrived
from kernels.serve.sending import start_sender
from kernels.serve.spec import Spec, configuration
from kernels.serve.starting import settle

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from kernels.serve.text import TextCodec

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Where prometheus_client keeps the counts of all processes, so that each can tell their sums."""


class Failed(NamedTuple):
    """To a web server: the engine has died, and open requests get this sentence."""

    sentence: str


class Drain(NamedTuple):
    """To a web server: end once the open requests have ended; those that go on for so many seconds get an error."""

    seconds: float


class Hurry(NamedTuple):
    """To a web server: open requests are told now that the server ends."""


@dataclass(frozen=True)
class Site:
    """What a web server serves: the model, its name to clients, and the key that they must give."""

    spec: Spec
    name: str
    key: str | None = None
    embeds: bool = False
    wait_seconds: float = float("inf")

    def text(self) -> "TextCodec":
        """The model's tokenizer. Raises ValueError with a sentence where it cannot be read."""
        from kernels.serve.text import text_of

        return text_of(*configuration(self.spec))

    def app(self, client: EngineClient, several: bool = False) -> "Starlette":
        """The ASGI application, one of `several` over one engine. Raises ValueError as `text` does."""
        from kernels.serve.app import Server

        return Server(client, self.text(), self.name, self.key, self.embeds, several).app()


def main(site: Site, number: int, pipe: Connection, connections: socket.socket, folder: str) -> None:
    """The process's main function. It ends when its owner tells it to, or has ended."""
    for each in (signal.SIGINT, signal.SIGTERM):  # its owner, which gets them too, lets it drain
        signal.signal(each, signal.SIG_IGN)
    os.environ[METRICS_FOLDER] = folder
    connections.setblocking(False)
    asyncio.run(_serve(site, number, pipe, connections))


async def _serve(site: Site, number: int, pipe: Connection, connections: socket.socket) -> None:
    from kernels.serve.web import WebServer

    outbox: SimpleQueue[Any] = SimpleQueue()
    client = EngineClient(outbox.put, site.wait_seconds, f"{number}:")
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    draining: list[asyncio.Task[None]] = []

    async def drain(seconds: float) -> None:
        await server.drain(seconds)
        ended.set()

    def take(message: Any) -> None:
        if isinstance(message, EngineState):
            client.told(message)
        elif isinstance(message, Failed):
            client.failed(ApiError(500, message.sentence))
        elif isinstance(message, Hurry):
            server.hurry()
        elif isinstance(message, Drain):
            draining.append(loop.create_task(drain(message.seconds)))
        else:
            client.received(message)

    def read() -> None:
        if not read_arrived(pipe, arrived, take):
            loop.remove_reader(pipe.fileno())
            ended.set()

    async with WebServer(site.app(client, several=True), client) as server:
        settle()
        arrived = select.poll()
        arrived.register(pipe, select.POLLIN)
        start_sender(pipe, outbox)
        loop.add_reader(pipe.fileno(), read)
        with handed_over(connections, server.take, lambda: None):
            await ended.wait()
    outbox.put(None)
