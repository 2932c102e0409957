"""The server over connections that are handed to it, for a program that may not connect to an address.

`python -m kernels.server.processes.handoff_server DESCRIPTOR SPEC` is started by that program with one end of a Unix
socket of packets (SOCK_SEQPACKET) and the `Spec` as JSON. Each packet that comes through it carries the server's end of
a new connection. The first packet that goes back is JSON: `{"ready": device, "serving": …}`, what the server chose, or
`{"declined": sentence}`. The server ends when the other end is closed, so it does not outlive the program.
"""

import asyncio
import json
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from select import select
from types import TracebackType
from typing import Any, Self

from kernels.server.processes.connections import receiving_connections
from kernels.server.processes.engine_process import EngineProcess
from kernels.server.processes.web_process import WebSpec
from kernels.server.processes.web_servers import web_servers
from kernels.server.spec import Spec
from kernels.server.starting import start_line

ANSWER_BYTES = 65_536
END_SECONDS = 60.0
DRAIN_SECONDS = 1.0
"""What open requests get once the program that handed them over has closed its end."""
NAME = "model"
"""The model's name to clients."""


class ServerDeclined(RuntimeError):
    """The server cannot serve; the message is a sentence."""


class HandoffServer:
    """A server in a process, whose connections `kernels.load` hands over; `serving` is what it chose."""

    def __init__(self, spec: Spec, env: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.serving: dict[str, Any] = {}
            command = [
                sys.executable,
                "-m",
                "kernels.server.processes.handoff_server",
                str(theirs.fileno()),
                json.dumps(asdict(spec)),
            ]
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
        message = json.loads(answer)
        if "declined" in message:
            raise ServerDeclined(message["declined"])
        self.serving = message["serving"]
        device: str = message["ready"]
        return device

    @property
    def handoff_fd(self) -> int:
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
    engine = EngineProcess(spec)
    engine.start()  # it takes the longest
    try:
        async with web_servers(engine, WebSpec(spec, NAME)) as servers:
            await _until_ended(control, engine, servers.take)
            await servers.drain(DRAIN_SECONDS)
    finally:
        await engine.stop()


async def _until_ended(control: socket.socket, engine: EngineProcess, take: Callable[[socket.socket], object]) -> None:
    """Tells what the engine said first, and then gives `take` each connection until the other end is closed."""
    loop = asyncio.get_running_loop()
    await engine.changed.wait()
    ready = engine.state.ready
    if ready is None:
        await loop.sock_sendall(control, _declined(engine.state.declined or "The engine died."))
        return
    print(start_line(engine.state.seconds, **ready.captured), file=sys.stderr, flush=True)
    chosen = ready.serving.model_dump(mode="json") if ready.serving else {}
    await loop.sock_sendall(control, json.dumps({"ready": ready.device, "serving": chosen}).encode())
    ended = asyncio.Event()
    with receiving_connections(control, take, ended.set):
        await ended.wait()


def _declined(sentence: str) -> bytes:
    return json.dumps({"declined": sentence}).encode()


def main(descriptor: str, spec: str) -> None:
    """The process's main function. A Ctrl-C is left to the program that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
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
