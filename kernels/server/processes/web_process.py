"""A web server in a process of its own, one of several over one engine. The main process (`web_processes`) sends it
connections and messages. `prometheus_client` reads its folder's name at import, so `kernels.server.http.app` is
imported later.
"""

import asyncio
import os
import shutil
import socket
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from kernels.model_files.sentence_transformers import SentenceModules
from kernels.server.http.client import EngineClient
from kernels.server.http.engine_state import EngineState
from kernels.server.http.errors import ApiError
from kernels.server.messages import Ping
from kernels.server.processes.connections import receiving_connections
from kernels.server.processes.pipes import ignore_signals, read_messages, start_sender
from kernels.server.spec import Spec, configuration, modules_of
from kernels.server.starting import settle

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from kernels.server.http.text import TextCodec

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The folder where prometheus_client keeps the counts of all processes, so that each can tell their sums."""


class Alive(NamedTuple):
    """From a web server: it serves, and has read what came before the `Ping` that this answers."""


class EngineDied(NamedTuple):
    """To a web server: open requests get this sentence."""

    sentence: str


class Drain(NamedTuple):
    """To a web server: end once the open requests have ended; those that go on for so many seconds get an error."""

    seconds: float


class EndOpen(NamedTuple):
    """To a web server: end the open requests with an error, and soon the process."""


@dataclass(frozen=True)
class WebSpec:
    """What a web server serves: a model, its name to clients, and the key that they must give."""

    spec: Spec
    name: str
    key: str | None = None
    embeds: bool = False
    wait_seconds: float = float("inf")
    origins: tuple[str, ...] = ()
    """Whose pages in a browser may ask: origins, or `*`."""

    def text(self) -> "TextCodec":
        """The model's tokenizer. Raises ValueError with a sentence where it cannot be read."""
        from kernels.server.http.text import text_of

        return text_of(*configuration(self.spec))

    def app(self, client: EngineClient, several: bool = False) -> "Starlette":
        """The ASGI application, one of `several` over one engine. Raises ValueError as `text` does."""
        from kernels.server.http.app import Server

        directory, _ = configuration(self.spec)
        modules = modules_of(directory) or SentenceModules() if self.embeds else None
        app = Server(client, self.text(), self.name, self.key, modules, several).app()
        if self.origins:
            from starlette.middleware.cors import CORSMiddleware

            app.add_middleware(
                CORSMiddleware, allow_origins=self.origins, allow_methods=["GET", "POST"], allow_headers=["*"]
            )
        return app


def main(web: WebSpec, prefix: str, control: socket.socket, folder: str, pipe: Connection) -> None:
    """The process's main function, until the main process says so or ends. `prefix` begins requests' names."""
    ignore_signals()
    os.makedirs(folder, exist_ok=True)
    os.environ[METRICS_FOLDER] = folder
    control.setblocking(False)
    if not asyncio.run(_serve(web, prefix, control, pipe)):
        shutil.rmtree(folder, ignore_errors=True)  # the main process cannot


async def _serve(web: WebSpec, prefix: str, control: socket.socket, pipe: Connection) -> bool:
    """False when it ends because the main process has ended."""
    from kernels.server.http.web import WebServer

    outbox: SimpleQueue[Any] = SimpleQueue()
    client = EngineClient(outbox.put, web.wait_seconds, prefix)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    draining: list[asyncio.Task[None]] = []

    async def drain(seconds: float) -> None:
        try:
            await server.drain(seconds)
        finally:
            ended.set()

    def take(message: Any) -> None:
        if isinstance(message, EngineState):
            client.state_changed(message)
        elif isinstance(message, EngineDied):
            client.engine_died(ApiError(500, message.sentence))
        elif isinstance(message, Ping):
            outbox.put(Alive())
        elif isinstance(message, EndOpen):
            server.end_open()
        elif isinstance(message, Drain):
            draining.append(loop.create_task(drain(message.seconds)))
        else:
            client.received(message)

    async with WebServer(web.app(client, several=True), client) as server:
        settle()
        read_messages(pipe, take, ended.set)
        start_sender(pipe, outbox)
        with receiving_connections(control, server.take, lambda: None, answers=True):
            await ended.wait()
    return bool(draining)
