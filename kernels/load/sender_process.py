"""A process that sends one share of a load, and the parent's side of it.

The parent starts `python -m kernels.load.sender_process DESCRIPTOR`, where the descriptor is one end of a pipe of
pickled objects. The child receives its share and answers None when it is ready. It then receives the time at which to
begin, in ns of the monotonic clock, and answers with a `LoadTrace`, or with the exception that ended it. It ends when
the parent closes the pipe, so it does not outlive the parent.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Protocol, Self

from kernels.load import sockets
from kernels.load.generator import MAX_IN_FLIGHT, Generator, LoadTrace


class SenderDied(RuntimeError):
    """A process ended before it answered; the message is a sentence."""


class Sends(Protocol):
    """A share of a load. It can be pickled, and makes the generator that sends it."""

    def generator(self) -> Generator: ...


class SenderProcess:
    """A child of a `with` block, started as a program: Celery's processes may not start one by `multiprocessing`."""

    def __init__(self, part: Sends, keep: Sequence[int]) -> None:
        """`keep` are the file descriptors that the child inherits, since `part` refers to them."""
        self._pipe, theirs = Pipe()
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno())]
            self.process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno(), *keep],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt from the keyboard is for the program
            )
        self.tell(part)

    def __enter__(self) -> Self:
        return self

    def tell(self, what: Any) -> None:
        """Sends an object to the child. If the child has ended, the next `answer` raises SenderDied."""
        with contextlib.suppress(OSError):
            self._pipe.send(what)

    async def answer(self) -> Any:
        """Waits for the child's next object. Raises SenderDied, or the exception that the child sends."""
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._pipe.fileno(), readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._pipe.fileno())
        try:
            answer = self._pipe.recv()
        except (EOFError, OSError):
            code = self.process.wait()
            how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
            raise SenderDied(f"A process that sent load ended {how} before it was done.") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pipe.close()
        self.process.kill()
        self.process.wait()


async def _send_load(pipe: Connection, generator: Generator, begin_ns: int) -> LoadTrace:
    asyncio.get_running_loop().add_reader(pipe.fileno(), os._exit, 1)  # nothing comes but the end
    try:
        return await generator.run(start_ns=begin_ns)
    finally:
        asyncio.get_running_loop().remove_reader(pipe.fileno())


def main(descriptor: str) -> None:
    """The child's main function; `descriptor` is the number of its end of the pipe."""
    with Connection(int(descriptor)) as pipe, contextlib.suppress(EOFError, BrokenPipeError):
        sockets.allow(2 * MAX_IN_FLIGHT)
        try:
            generator = pipe.recv().generator()
            pipe.send(None)
            answer: LoadTrace | Exception = asyncio.run(_send_load(pipe, generator, pipe.recv()))
        except Exception as error:
            answer = error
        pipe.send(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
