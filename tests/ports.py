"""TCP ports for servers that a test starts, and starts again, while other tests run."""

import socket

_reserved: list[socket.socket] = []


def reserved_port() -> int:
    """A port of 127.0.0.1 that nobody else is given until this process ends.

    The port is bound and never listened at. A server that sets SO_REUSEADDR, as they all do, can bind it as well;
    the system gives it to no connection and to no other server meanwhile.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _reserved.append(holder)
    return int(holder.getsockname()[1])
