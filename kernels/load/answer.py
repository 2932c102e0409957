"""One answer of a server: httptools reads HTTP, and a reader of its kind of content takes the body."""

import httptools

from kernels.load.events import GARBAGE, BodyReader, DocumentReader, EventReader, RefusalReader
from kernels.load.exchange import CANCELLED, Exchange

LENGTHS = (b"content-length", b"transfer-encoding")
"""Headers that say where a body ends. Without one it ends with the connection."""

LONGEST_HEAD = 64 * 2**10


class AnswerParser:
    """Takes the bytes of one answer and writes what they say into the exchange. The methods `on_…` are httptools'."""

    def __init__(self, exchange: Exchange, streamed: bool) -> None:
        self._exchange, self._streamed = exchange, streamed
        self._parser = httptools.HttpResponseParser(self)
        self._reader: BodyReader | None = None
        self._content_type = self._encoding = ""
        self._head_bytes = 0
        self._has_length = self._complete = False
        self.reusable = False
        """Whether the connection can take another request: the answer is complete, and no byte came behind it."""

    def feed(self, data: bytes, now_ns: int) -> bool:
        """Takes bytes that arrived at `now_ns`. True once the exchange needs no more."""
        self._now_ns = now_ns
        if self._reader is None:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._exchange.fail(GARBAGE, _no_http(data, error), now_ns)
        if self._reader is None and self._head_bytes > LONGEST_HEAD:
            self._exchange.fail(GARBAGE, f"The server sent a head of more than {LONGEST_HEAD:,} bytes.", now_ns)
        return self._complete or self._over

    def end(self, now_ns: int) -> bool:
        """Takes the connection's end. False if the answer was not complete."""
        if self._reader is None or self._has_length:
            return False
        self._reader.close(now_ns)
        return True

    @property
    def _over(self) -> bool:
        return bool(self._exchange.error) or self._exchange.ended == CANCELLED

    def on_message_begin(self) -> None:
        self.reusable = False
        self._content_type, self._encoding, self._has_length = "", "", False

    def on_header(self, name: bytes, value: bytes) -> None:
        lowered = name.lower()
        self._has_length |= lowered in LENGTHS
        if lowered == b"content-type":
            self._content_type = value.decode("latin-1").partition(";")[0].strip().lower()
        elif lowered == b"content-encoding":
            self._encoding = value.decode("latin-1").strip().lower().removeprefix("identity")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and not self._complete:  # below it, the answer is still to come
            self._exchange.status = status
            self._reader = self._reader_for(status)

    def on_body(self, body: bytes) -> None:
        if self._reader and not (self._complete or self._over):
            self._reader.feed(body, self._now_ns)

    def on_message_complete(self) -> None:
        if self._reader is None or self._complete:
            return
        self._complete = True
        self.reusable = self._parser.should_keep_alive()
        if not self._exchange.error:
            self._reader.close(self._now_ns)

    def _reader_for(self, status: int) -> BodyReader:
        exchange = self._exchange
        if self._encoding:
            sentence = f"The server compressed its answer ({self._encoding}), though it was told not to."
            exchange.fail(GARBAGE, sentence, self._now_ns)
        if status != 200:
            return RefusalReader(exchange)
        if not self._streamed:
            return DocumentReader(exchange)
        if self._content_type != "text/event-stream":
            return RefusalReader(exchange, self._content_type)
        return EventReader(exchange)


def _no_http(data: bytes, error: Exception) -> str:
    """The sentence about an answer that begins with `data`."""
    if data[3:4] == b"\x04" and data[5:9] == bytes(4):  # SETTINGS, a server's first frame
        return "The server speaks HTTP/2 only, and load is sent by HTTP/1.1. Give an address that takes HTTP/1.1."
    if data.startswith(b"\x15\x03"):  # an alert of TLS
        return "The server speaks TLS. Give its address with https."
    return f"The server does not speak HTTP: {error}."
