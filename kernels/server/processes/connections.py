"""Passes connections from one process to another, through a Unix socket of packets (SOCK_SEQPACKET)."""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

logger = logging.getLogger(__name__)
TAKEN, NO_ROOM = b"+", b"-"
MAX_CONNECTIONS_IN_FLIGHT = 64
"""So many connections are on their way to one process. Its answers to them have room in the socket."""
PAUSE_SECONDS = 1.0
"""How long a process is given none after it had no room for one."""


class GivenConnections:
    """Connections given to a process, open here until it has taken them; `back` gets those it does not take."""

    def __init__(self, control: socket.socket, back: Callable[[socket.socket], None]) -> None:
        """`control` does not block."""
        self._control, self._back = control, back
        self._given: deque[socket.socket] = deque()
        self._loop = asyncio.get_running_loop()
        self._rests_until = self._loop.time()
        self._loop.add_reader(control, self._read)

    def give(self, connection: socket.socket) -> bool:
        """False where the process can be given none now."""
        if len(self._given) == MAX_CONNECTIONS_IN_FLIGHT or self._loop.time() < self._rests_until:
            return False
        try:
            socket.send_fds(self._control, [b"+"], [connection.fileno()])
        except OSError:  # it is full, or its process has ended
            return False
        self._given.append(connection)
        return True

    def close(self) -> None:
        """Once the process has ended, or its connections no longer matter."""
        if self._control.fileno() < 0:
            return
        self._read()
        self._loop.remove_reader(self._control)
        self._control.close()
        while self._given:
            self._back(self._given.popleft())

    def _read(self) -> None:
        try:
            while answer := self._control.recv(1):
                connection = self._given.popleft()
                if answer == TAKEN:
                    connection.close()
                else:
                    self._rests_until = self._loop.time() + PAUSE_SECONDS
                    self._back(connection)
        except BlockingIOError:
            return
        except ConnectionResetError:  # it ended before it read all; the answers that it gave come after this
            return self._read()
        self._loop.remove_reader(self._control)


@contextmanager
def receiving_connections(
    control: socket.socket, take: Callable[[socket.socket], object], ended: Callable[[], object], answers: bool = False
) -> Iterator[None]:
    """Within it `take` gets each connection that comes through `control`, and `ended` is called once its other end is
    closed. `control` does not block, and neither do the connections. With `answers` the other end has
    `GivenConnections`, and is told of each whether there was room for it; else one without room is closed.
    """
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            loop.remove_reader(control)
            ended()
            return
        if answers:
            with suppress(OSError):  # the other process has ended, which the next read tells
                control.send(TAKEN if descriptors else NO_ROOM)
        if not descriptors:
            what = "given back" if answers else "closed"
            logger.error("a connection was %s: this process has as many open files as it may", what)
        for descriptor in descriptors:
            connection = socket.socket(fileno=descriptor)
            connection.setblocking(False)
            take(connection)

    loop.add_reader(control, read)
    try:
        yield
    finally:
        loop.remove_reader(control)
