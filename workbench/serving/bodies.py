"""Bodies that are discarded: they are too large for their address, or for the disk."""

from io import BytesIO
from typing import Any

from django.conf import settings
from waitress.parser import HTTPRequestParser

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
            kept = body.buf
            body.buf = DiscardingBuffer(len(kept))
            kept.close()
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
