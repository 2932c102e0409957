"""What speaks HTTP on a connection: uvicorn's protocol over httptools or, for what that cannot do, over h11."""

import asyncio
import re
from collections.abc import Callable

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_END = re.compile(rb"\r?\n\r?\n")
LONGEST_HEAD = 1 << 16
"""A request with more bytes before its body goes to h11, which refuses it."""
NEEDS_H11 = re.compile(rb"\A[^\n]* HTTP/1\.0\r?\n|\nupgrade *:", re.IGNORECASE)
"""httptools drops the body of a request with `Upgrade`, which Java's HttpClient and `curl --http2` send and a server
may ignore (RFC 9110, 7.8), and uvicorn over it answers HTTP/1.0 in chunks. h11 does neither, at twice the time.
"""


class PlainH11Protocol(H11Protocol):
    """Ignores `Upgrade`, without uvicorn's warnings."""

    def _should_upgrade(self) -> bool:
        return False


class FirstRequest(asyncio.Protocol):
    """Reads a connection up to the end of its first request's head, and hands it to the protocol that serves it."""

    def __init__(self, make: Callable[[type[asyncio.Protocol]], asyncio.Protocol]) -> None:
        """`make` makes a protocol of a class."""
        self._make = make
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._head += data
        end = HEAD_END.search(self._head)
        if end is None and self._head[:1].isalpha() and len(self._head) <= LONGEST_HEAD:
            return
        needs_h11 = len(self._head) > LONGEST_HEAD if end is None else NEEDS_H11.search(self._head[: end.end()])
        protocol = self._make(PlainH11Protocol if needs_h11 else HttpToolsProtocol)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(self._head)
