"""Passes connections from one process to another, through a Unix socket of packets (SOCK_SEQPACKET)."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


def send_connection(control: socket.socket, connection: socket.socket) -> None:
    """Sends the other process a connection, which stays open here. Raises BlockingIOError while the socket is full,
    OSError when the other process has ended.
    """
    socket.send_fds(control, [b"+"], [connection.fileno()])


@contextmanager
def receiving_connections(
    control: socket.socket, take: Callable[[socket.socket], object], ended: Callable[[], object]
) -> Iterator[None]:
    """Within it `take` gets each connection that comes through `control`, and `ended` is called once its other end is
    closed. `control` does not block, and neither do the connections.
    """
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            said, descriptors, flags, _ = socket.recv_fds(control, 1, 1)
        except BlockingIOError:
            return
        except OSError:
            said, descriptors, flags = b"", [], 0
        if not said:
            loop.remove_reader(control)
            ended()
        if flags & socket.MSG_CTRUNC:
            logger.error("a connection was closed: this process has as many open files as it may")
        for descriptor in descriptors:
            connection = socket.socket(fileno=descriptor)
            connection.setblocking(False)
            take(connection)

    loop.add_reader(control, read)
    try:
        yield
    finally:
        loop.remove_reader(control)
