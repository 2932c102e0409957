"""Processes that a server starts, and the pipes by which it and they send each other messages."""

import asyncio
import errno
import select
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any

SENDER = "sends messages"
"""The name of the threads that send."""
AT_ONCE = 64
"""So many messages are read before the event loop does something else."""
SIGNALS = {signal.SIGINT, signal.SIGTERM}
"""Signals that Ctrl-C, systemd and `timeout` send to a whole process group. The server's main process takes them."""


def spawn(main: Callable[..., None], arguments: tuple[Any, ...], name: str) -> tuple[BaseProcess, Connection]:
    """A process of `main`, with signals masked until `ignore_signals`, and the pipe's other end. Raises OSError."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        process = context.Process(target=main, args=(*arguments, theirs), name=name, daemon=True)
        process.start()
    except BaseException:
        ours.close()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
    return process, ours


def start_process(
    main: Callable[..., None],
    arguments: tuple[Any, ...],
    name: str,
    outbox: "SimpleQueue[Any]",
    take: Callable[[Any], None],
    ended: Callable[[], None],
) -> tuple[BaseProcess, Connection]:
    """As `spawn`; the process is sent what comes into `outbox`, and `take` and `ended` are as for `read_messages`."""
    process, pipe = spawn(main, arguments, name)
    try:
        start_sender(pipe, outbox)
    except OSError:
        process.kill()
        pipe.close()
        raise
    read_messages(pipe, take, ended)
    return process, pipe


def ignore_signals() -> None:
    """Leaves SIGINT and SIGTERM to the server's main process, which tells this one to end."""
    for item in SIGNALS:
        signal.signal(item, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def read_messages(connection: Connection, take: Callable[[Any], None], ended: Callable[[], None]) -> None:
    """From now on `take` gets each message, and `ended` is called once the other side is closed. The event loop reads
    all that have arrived together; a thread would wait for its lock.
    """
    loop, arrived = asyncio.get_running_loop(), select.poll()
    arrived.register(connection, select.POLLIN)

    def read() -> None:
        try:
            for _ in range(AT_ONCE):
                take(connection.recv())
                if connection.closed or not arrived.poll(0):
                    return
        except (EOFError, OSError):
            stop_reading(connection)
            ended()

    loop.add_reader(connection.fileno(), read)


def stop_reading(connection: Connection) -> None:
    """Takes no further message from it."""
    if not connection.closed:
        asyncio.get_running_loop().remove_reader(connection.fileno())


def start_sender(connection: Connection, outbox: "SimpleQueue[Any]") -> None:
    """Starts a thread that sends what comes into `outbox`, so that a full pipe keeps only it waiting, until None or
    until the other side is gone. Raises OSError without room for a thread.
    """
    thread = threading.Thread(target=_send, args=(connection, outbox), name=SENDER, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, str(error)) from error


def _send(connection: Connection, outbox: "SimpleQueue[Any]") -> None:
    """The connection is closed here and nowhere else: closed by another thread it may be in the midst of sending."""
    with connection:
        while (message := outbox.get()) is not None:
            try:
                connection.send(message)
            except OSError:
                time.sleep(0.01)
