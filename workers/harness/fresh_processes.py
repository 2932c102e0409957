"""Fresh processes for measurements, forked from one that has imported everything and has never touched CUDA.

A stage's process forks it before its first stage. A measurement in a fresh process then costs no imports. Where there
is none, as in a stage by hand, one is started that has imported little. Several fresh processes may get ready at the
same time; each then waits for its turn.
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from kernels.measure import other_programs
from workers.shared.lifeline import die_with_parent

START_SECONDS = 1.0
"""What a forked process takes until it loads its model. The start of CUDA is most of it: 0.4 to 0.6 s on an H200."""
REQUEST_BYTES = 2**16
READY, TURN, ENDED = b"ready", b"turn", b"ended "
SERVE = "from workers.harness import fresh_processes; fresh_processes.main()"
_link: socket.socket | None = None
_turns: socket.socket | None = None


def prepare() -> None:
    """Fork the process that forks the others, from this one, which must run one thread and not have touched CUDA."""
    global _link
    parent = os.getpid()
    _link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        _link.close()
        _serve(theirs, parent)
    theirs.close()


def main() -> NoReturn:
    """Fork processes for the parent, which has given the number of a socket as the argument."""
    _serve(socket.socket(fileno=int(sys.argv[1])), os.getppid())


class FreshProcess:
    """A module that runs as `python -m` does, in a process that ends with this one."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        self._module = module
        self._code: int | None = None
        self._ready = False
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, suppress(BrokenPipeError):  # it then ends before it has begun
            socket.send_fds(_server(), [json.dumps([module, *arguments]).encode()], [theirs.fileno()])
        begun = self._message(None)
        self._pid = int(begun) if self._code is None else None

    def is_ready(self, seconds: float) -> bool:
        """Whether it waits for its turn, after so many seconds at most; a process that has ended does not."""
        if not self._ready and self._code is None:
            self._ready = self._message(seconds) == READY
        return self._ready and self._code is None

    def run(self, seconds: float) -> int:
        """Gives it its turn and waits for its end; its exit code. Raises subprocess.TimeoutExpired."""
        end = time.monotonic() + seconds
        if self.is_ready(seconds):
            self._channel.send(TURN)
            self._message(end - time.monotonic())
        if self._code is None:
            self.close()
            raise subprocess.TimeoutExpired(self._module, seconds)
        return self._code

    def close(self) -> None:
        while self._code is None and self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._message(None)
        self._channel.close()

    def _message(self, seconds: float | None) -> bytes:
        """Its next message; none where it has sent none after so many seconds. That it has ended is kept."""
        self._channel.settimeout(None if seconds is None else max(1e-3, seconds))
        try:
            message = self._channel.recv(REQUEST_BYTES)
        except TimeoutError:
            return b""
        if not message or message.startswith(ENDED):
            self._code = int(message.removeprefix(ENDED) or -signal.SIGKILL)
        return message


def wait_for_turn() -> None:
    """Called by the module once it is ready. Goes on at once where no FreshProcess runs it."""
    if _turns is not None:
        _turns.send(READY)
        _turns.recv(len(TURN))


def _server() -> socket.socket:
    global _link
    if _link is None:
        _link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-c", SERVE, str(theirs.fileno())]
            subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
    return _link


def _serve(link: socket.socket, parent: int) -> NoReturn:
    """Fork a process for each request, with a socket that says its id, whether it is ready and its exit code."""
    die_with_parent(parent)
    other_programs.set_root(parent)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how those that wait for the processes ended
    server = os.getpid()
    while True:
        request, descriptors, *_ = socket.recv_fds(link, REQUEST_BYTES, 1)
        if not request:
            os._exit(0)
        with socket.socket(fileno=descriptors[0]) as channel:
            if os.fork() == 0:
                link.close()
                die_with_parent(server)
                _run_and_wait(channel, *json.loads(request))


def _run_and_wait(channel: socket.socket, module: str, *arguments: str) -> NoReturn:
    global _turns
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        die_with_parent(parent)
        _turns = channel
        channel.send(str(os.getpid()).encode())
        sys.argv[1:] = arguments
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        raise SystemExit
    channel.send(ENDED + str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
    os._exit(0)
