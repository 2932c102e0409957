"""The server over connections that are handed to it, for a program that may not connect to an address.

`python -m kernels.serve.handed DESCRIPTOR SPEC` is started by that program with one end of a Unix socket of packets
(SOCK_SEQPACKET) and the `Spec` as JSON. Each packet that comes through it carries the server's end of a new connection.
The first packet that goes back is JSON: `{"ready": device, "serving": …}`, what the server chose, or
`{"declined": sentence}`. The server ends when the other
end is closed, so it does not outlive the program.
"""

import asyncio
import json
import logging
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from select import select
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kernels.serve.spec import Spec, configuration
from kernels.serve.starting import settle, start_line

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from kernels.serve.client import EngineClient

ANSWER_BYTES = 65_536
END_SECONDS = 60.0
NAME = "model"
"""The model's name to clients."""


class ServerDeclined(RuntimeError):
    """The server cannot serve; the message is a sentence."""


class HandedServer:
    """A server in a process of its own. Its connections are those that `kernels.load` hands over through `handing`.

    `serving` is what it chose once it is ready, as `kernels.plan.Serving` has it.
    """

    def __init__(self, spec: Spec, env: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.serving: dict[str, Any] = {}
            command = [sys.executable, "-m", "kernels.serve.handed", str(theirs.fileno()), json.dumps(asdict(spec))]
            self.process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], env=dict(env), stdin=subprocess.DEVNULL
            )

    def __enter__(self) -> Self:
        return self

    def wait_ready(self, seconds: float) -> str:
        """The device that serves. Raises ServerDeclined with a sentence, also when it takes longer than `seconds`."""
        if not select([self._control], [], [], seconds)[0]:
            raise ServerDeclined(f"The server was not ready after {seconds:.0f} s.")
        answer = self._control.recv(ANSWER_BYTES)
        if not answer:
            raise ServerDeclined(
                f"The server's process ended with code {self.process.wait(END_SECONDS)} before it served."
            )
        told = json.loads(answer)
        if "declined" in told:
            raise ServerDeclined(told["declined"])
        self.serving = told["serving"]
        device: str = told["ready"]
        return device

    @property
    def handing(self) -> int:
        """The descriptor of the socket through which connections are handed over."""
        return self._control.fileno()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._control.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


async def _serve(control: socket.socket, spec: Spec) -> None:
    from kernels.serve.app import Server
    from kernels.serve.client import EngineClient
    from kernels.serve.text import text_of

    directory, config = configuration(spec)
    client = EngineClient(spec)
    client.start()  # it takes the longest
    try:
        app = Server(client, text_of(directory, config), NAME).app()
        settle()
        await _serve_handed(control, client, app)
    finally:
        await client.stop()


async def _serve_handed(control: socket.socket, client: "EngineClient", app: "Starlette") -> None:
    import uvicorn

    from kernels.serve import web

    settings = web.settings(app, timeout_graceful_shutdown=1)
    server = uvicorn.Server(settings)
    serving = asyncio.create_task(server.serve(sockets=[]))
    await client.changed.wait()
    if client.ready is None:
        await asyncio.get_running_loop().sock_sendall(control, _declined(client.declined or "The engine died."))
    else:
        print(start_line(client.seconds, graphs=client.ready.graphs), file=sys.stderr, flush=True)
        chosen = client.ready.serving.model_dump(mode="json") if client.ready.serving else {}
        ready = json.dumps({"ready": client.ready.device, "serving": chosen}).encode()
        await asyncio.get_running_loop().sock_sendall(control, ready)
        await _take_connections(control, settings, server)
    server.should_exit = True
    await serving


async def _take_connections(control: socket.socket, settings: Any, server: Any) -> None:
    """Serves each connection that comes, until the other end is closed."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    tasks: set[asyncio.Task[Any]] = set()

    def protocol() -> asyncio.Protocol:
        made: asyncio.Protocol = settings.http_protocol_class(
            config=settings, server_state=server.server_state, app_state=server.lifespan.state
        )
        return made

    def take() -> None:
        try:
            said, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        except BlockingIOError:
            return
        except OSError:
            said, descriptors = b"", []
        if not said:
            loop.remove_reader(control)
            ended.set()
        for descriptor in descriptors:
            connection = socket.socket(fileno=descriptor)
            connection.setblocking(False)
            task = loop.create_task(loop.connect_accepted_socket(protocol, connection))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    loop.add_reader(control, take)
    await ended.wait()


def _declined(sentence: str) -> bytes:
    return json.dumps({"declined": sentence}).encode()


def main(descriptor: str, spec: str) -> None:
    """The process's main function."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    control = socket.socket(fileno=int(descriptor))
    control.setblocking(False)
    try:
        asyncio.run(_serve(control, Spec(**json.loads(spec))))
    except (ValueError, OSError) as error:
        control.setblocking(True)
        control.send(_declined(str(error)))


if __name__ == "__main__":
    main(*sys.argv[1:])
