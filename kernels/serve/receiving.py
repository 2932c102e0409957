"""Reads a pipe of messages within an event loop."""

import select
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


def read_arrived(connection: Connection, arrived: select.poll, take: Callable[[Any], None]) -> bool:
    """Takes all messages that have arrived, so that tokens which came together are told together; False once the other
    side has ended. `arrived` polls the connection.

    The event loop reads them itself: a thread would wait for the loop to let go of the interpreter's lock.
    """
    try:
        while True:
            take(connection.recv())
            if not arrived.poll(0):
                return True
    except (EOFError, OSError):
        return False
