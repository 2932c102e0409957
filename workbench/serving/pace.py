"""Connections that must keep a pace. A slow client holds a socket, never a thread, and not for ever."""

import time
from contextlib import suppress
from io import BytesIO
from socket import SHUT_RDWR
from typing import Any

from django.conf import settings
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer

from workbench.serving.body_limits import body_limit
from workbench.storage.disk import free_bytes


class DiscardingBuffer:
    """Takes the place of a body's buffer: it counts what comes and keeps nothing."""

    def __init__(self, already: int) -> None:
        self._length = already

    def append(self, data: bytes) -> None:
        self._length += len(data)

    def getfile(self) -> BytesIO:
        """An empty body."""
        return BytesIO()

    def close(self) -> None:
        """Nothing is open."""

    def __len__(self) -> int:
        return self._length


class LimitedParser(HTTPRequestParser):  # type: ignore[misc]
    """A request whose body is received to its end, but kept only as far as its address and the disk allow.

    The site gets a discarded body empty, with its true length, and answers 413 or 507 by that.
    """

    def received(self, data: bytes) -> int:
        """The number of bytes taken."""
        consumed: int = super().received(data)
        body = self.body_rcv
        if (
            body is not None
            and not self.completed
            and not isinstance(body.buf, DiscardingBuffer)
            and self._is_too_much()
        ):
            received_part = body.buf
            body.buf = DiscardingBuffer(len(received_part))
            received_part.close()
        return consumed

    def _is_too_much(self) -> bool:
        limit = body_limit(self.command, self.path, self._shows_credential())
        length = max(self.content_length, self.body_bytes_received)
        if limit is not None and length > limit:
            return True
        in_file = length > self.adj.inbuf_overflow
        return in_file and free_bytes(settings.WORKBENCH_DATA) < settings.DISK_RESERVE_BYTES

    def _shows_credential(self) -> bool:
        headers: dict[str, Any] = self.headers
        return "AUTHORIZATION" in headers or f"{settings.SESSION_COOKIE_NAME}=" in headers.get("COOKIE", "")


GRACE_SECONDS = 10
"""A request or a response may take this long; one that takes longer must move MIN_RATE in every such interval."""
CROWDED_GRACE_SECONDS = 3
"""The grace while more than three quarters of the connections are taken."""
MIN_RATE = 8 * 2**10
"""Bytes per second."""
IDLE_SECONDS = 20
"""A connection between two requests is kept this long; longer than clients keep theirs, so that none is cut off."""
BYTES_AT_ONCE = 2**20
"""The most bytes that one connection sends in one iteration of the loop, so that the others are served between."""

IDLE, WORKING, SENDING = "idle", "working", "sending"


class PacedChannel(HTTPChannel):
    """One connection, which counts the bytes that it moves in its present phase."""

    parser_class = LimitedParser

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._phase: object = IDLE
        self._since = time.monotonic()
        self._moved = 0
        self._left = BYTES_AT_ONCE
        super().__init__(*arguments, **options)

    def recv(self, buffer_size: int) -> bytes:
        """Receive, and count."""
        data: bytes = super().recv(buffer_size)
        self._moved += len(data)
        return data

    def send(self, data: bytes, do_close: bool = True) -> int:
        """Send, and count; nothing more once it has sent BYTES_AT_ONCE in this iteration."""
        if self._left <= 0:
            return 0
        sent: int = super().send(data, do_close=do_close)
        self._moved += sent
        self._left -= sent
        return sent

    def _flush_some(self, do_close: bool = True) -> bool:
        self._left = BYTES_AT_ONCE
        return bool(super()._flush_some(do_close=do_close))

    def overdue(self, now: float, grace: float) -> bool:
        """Whether the client is slower than it may be; asked every second."""
        phase = self._present_phase()
        used = phase is IDLE and self._moved  # a request and its response may fit between two looks
        if phase is not self._phase or used:
            self._phase, self._since, self._moved = phase, now, 0
        if phase is WORKING:
            return False
        if phase is IDLE:
            return now - self._since > min(IDLE_SECONDS, grace * 2)
        if now - self._since <= grace:
            return False
        slow = self._moved < MIN_RATE * (now - self._since)
        self._since, self._moved = now, 0
        return slow

    def drop(self) -> None:
        """Close the connection at the loop's next iteration, although a client that reads nothing is never writable."""
        self.will_close = True
        with suppress(OSError):
            self.socket.shutdown(SHUT_RDWR)

    def _present_phase(self) -> object:
        """IDLE, WORKING, SENDING, or the request that is being received."""
        if self.total_outbufs_len:
            return SENDING
        if self.requests:
            return WORKING
        return self.request or IDLE


class PacedServer(TcpWSGIServer):
    """A listener that closes the connections which do not keep the pace."""

    channel_class = PacedChannel

    def maintenance(self, now: float) -> None:
        """Called by waitress every `cleanup_interval` seconds."""
        crowded = len(self.active_channels) > self.adj.connection_limit * 3 / 4
        grace = CROWDED_GRACE_SECONDS if crowded else GRACE_SECONDS
        for channel in list(self.active_channels.values()):
            if channel.overdue(time.monotonic(), grace):
                channel.drop()
