"""Hands connections from one process to another, through a Unix socket of packets (SOCK_SEQPACKET)."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def hand_over(control: socket.socket, connection: socket.socket) -> None:
    """Sends the other process a connection, which stays open here. Raises BlockingIOError while the socket is full,
    OSError when the other process has ended.
    """
    socket.send_fds(control, [b"+"], [connection.fileno()])


@contextmanager
def handed_over(
    control: socket.socket, take: Callable[[socket.socket], object], ended: Callable[[], object]
) -> Iterator[None]:
    """Within it `take` gets each connection that comes through `control`, and `ended` is called once its other end is
    closed. `control` does not block, and neither do the connections.
    """
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            said, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        except BlockingIOError:
            return
        except OSError:
            said, descriptors = b"", []
        if not said:
            loop.remove_reader(control)
            ended()
        for descriptor in descriptors:
            connection = socket.socket(fileno=descriptor)
            connection.setblocking(False)
            take(connection)

    loop.add_reader(control, read)
    try:
        yield
    finally:
        loop.remove_reader(control)
