"""The thread that sends an engine its messages, so that a full pipe keeps nobody but it waiting."""

import threading
import time
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

SENDER = "to the engine"
"""The thread's name."""


def start_sender(connection: Connection, outbox: "SimpleQueue[Any]") -> None:
    """Starts the thread. It sends what comes into `outbox` until None comes, and then closes the connection."""
    threading.Thread(target=_send, args=(connection, outbox), name=SENDER, daemon=True).start()


def _send(connection: Connection, outbox: "SimpleQueue[Any]") -> None:
    """What a dead engine can no longer take is lost; its requests get an error anyway.

    The connection is closed here and nowhere else: closed by another thread it may be in the midst of sending.
    """
    with connection:
        while (message := outbox.get()) is not None:
            try:
                connection.send(message)
            except OSError:
                time.sleep(0.01)
