"""Large bodies are read in a process of their own: Python's JSON and pydantic hold the interpreter's lock, so in the
web server's process all streams would wait, in a thread as well.

`python -m kernels.server.http.body_process DESCRIPTOR` is started with one end of a socket. For each body the server
sends its kind, the longest prompt and the bytes; back comes what is wrong with it, or the document, whose list of
prompts or messages follows in slices: what the server takes up at once is small.
"""

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from kernels.server.http.body_parsing import Document, parse_document
from kernels.server.http.errors import ApiError

LONG_FIELDS = ("prompt", "input", "messages", "tokens")
"""Fields whose lists are sent in slices."""
SLICE = 1024
"""Elements of a slice; those of lists in a list are counted, and none of these is divided."""


class ReaderEnded(RuntimeError):
    """The process ended before it had answered."""


class BodyReader:
    """The process, which is started for the first body, and again after its end. It reads one body after another."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "bodies")
        self._connection: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None

    async def read(self, kind: type[Document], body: bytes, longest: int | None) -> Document:
        """The body's document, as `parse_document`, by a new process if one ends. Raises ApiError, ReaderEnded."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._read, kind, body, longest)

    def close(self) -> None:
        """Ends the process, once it has read what it was given."""
        self._thread.submit(self._end)
        self._thread.shutdown()

    def _read(self, kind: type[Document], body: bytes, longest: int | None) -> Document:
        try:
            wrong, document, name, count = self._answer_sliced(kind, body, longest)
        except ReaderEnded:
            wrong, document, name, count = self._answer_sliced(kind, body, longest)
        if wrong is not None:
            raise ApiError(*wrong)
        if name is not None:
            setattr(document, name, count)
        read: Document = document
        return read

    def _answer_sliced(
        self, kind: type[Document], body: bytes, longest: int | None
    ) -> tuple[Any, Any, str | None, list[Any]]:
        """What `answer` sends, its slices put together. Raises ReaderEnded."""
        connection = self._connection or self._start()
        try:
            connection.send((kind, longest))
            connection.send_bytes(body)
            wrong, document, name, slices = connection.recv()
            return wrong, document, name, [item for _ in range(slices) for item in connection.recv()]
        except (EOFError, OSError) as error:
            self._end()
            raise ReaderEnded("the process that reads large bodies has ended") from error

    def _start(self) -> Connection:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kernels.server.http.body_process", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self._connection = Connection(ours.detach())
        return self._connection

    def _end(self) -> None:
        if self._connection is not None and self._process is not None:
            self._connection.close()
            self._process.wait()
        self._connection = self._process = None


def sliced(values: list[Any]) -> Iterator[list[Any]]:
    """The list in slices of SLICE elements, or of lists with so many elements together."""
    items: list[Any] = []
    size = 0
    for value in values:
        items.append(value)
        size += len(value) if isinstance(value, list) else 1
        if size >= SLICE:
            yield items
            items, size = [], 0
    if items:
        yield items


def answer(connection: Connection) -> None:
    """Reads one body. Raises EOFError when the other end is closed."""
    kind, longest = connection.recv()
    body = connection.recv_bytes()
    try:
        document = parse_document(body, kind, longest)
    except ApiError as error:
        connection.send(((error.status, error.message, error.param, error.code), None, None, 0))
        return
    name = next((name for name in LONG_FIELDS if isinstance(getattr(document, name, None), list)), None)
    slices = list(sliced(getattr(document, name))) if name else []
    if name:
        setattr(document, name, [])
    connection.send((None, document, name, len(slices)))
    for part in slices:
        connection.send(part)


def main(descriptor: str) -> None:
    """The process's main function. It ends when the server closes its end, and at no signal to the process group."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    gc.freeze()
    connection = Connection(int(descriptor))
    while True:
        try:
            answer(connection)
        except (EOFError, OSError):
            return


if __name__ == "__main__":
    main(sys.argv[1])
