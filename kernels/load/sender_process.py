"""A process that sends a part of a load, and the program that started it.

`python -m kernels.load.sender_process DESCRIPTOR` is started with one end of a pipe of pickled objects. It takes a
part, says None once it is ready, takes the time at which to begin, and gives back what it sent, or the exception that
ended it. It ends when the other end is closed, so it does not outlive its program.
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
from kernels.load.generator import MOST_IN_FLIGHT, Generator, Sent


class SenderDied(RuntimeError):
    """A process ended before it gave back what it sent; the message is a sentence."""


class Sends(Protocol):
    """A part of a load, which can be pickled."""

    def generator(self) -> Generator: ...


class SenderProcess:
    """One process, for as long as a block lasts. A process of Celery's pool may start it too: it is a plain program."""

    def __init__(self, part: Sends, keep: Sequence[int]) -> None:
        """`keep`: descriptors that the part names."""
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
        """Sends an object; a process that is gone says so in `answer`."""
        with contextlib.suppress(OSError):
            self._pipe.send(what)

    async def answer(self) -> Any:
        """What the process says next. Raises SenderDied, or the exception that it says."""
        loop, said = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._pipe.fileno(), said.set)
        try:
            await said.wait()
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


async def _sent(pipe: Connection, generator: Generator, begin_ns: int) -> Sent:
    asyncio.get_running_loop().add_reader(pipe.fileno(), os._exit, 1)  # nothing comes but the end
    try:
        return await generator.run(start_ns=begin_ns)
    finally:
        asyncio.get_running_loop().remove_reader(pipe.fileno())


def main(descriptor: str) -> None:
    """The process's main function."""
    with Connection(int(descriptor)) as pipe, contextlib.suppress(EOFError, BrokenPipeError):
        sockets.allow(2 * MOST_IN_FLIGHT)
        try:
            generator = pipe.recv().generator()
            pipe.send(None)
            answer: Sent | Exception = asyncio.run(_sent(pipe, generator, pipe.recv()))
        except Exception as error:
            answer = error
        pipe.send(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
