"""HTTP/1.1 to one server: connections that are kept, each with one request at a time.

A token's time is taken when the event loop hands over the bytes, before they are parsed. httptools parses; with h11 a
generator takes 1.4 times its processor time. Of the asyncio clients that were tried, httpx took about 23 times that of
h11 for 500 streams a second, aiohttp 1.4 times.
"""

import asyncio
import os
import socket
import ssl
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from kernels.load.answer import AnswerParser
from kernels.load.events import HALF, NOTHING
from kernels.load.exchange import Exchange
from kernels.load.secrecy import without_key

CONNECT_SECONDS = 10.0
API_PATHS = ("/chat/completions", "/completions", "/embeddings")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
NO_CONNECTION, TIMED_OUT = "no connection", "timed out"


class BadAddress(ValueError):
    """The address of a server makes no sense; the message says why."""


@dataclass(frozen=True)
class Address:
    """Where a server listens. `base` is the path before that of each API, `secret` the API key, "" for none.

    `handoff_fd`, where given, is the descriptor of a Unix socket of packets; the server's end of each new connection is
    handed over through it, in place of connecting to host and port (`kernels/server/processes/handoff_server.py`).
    `resolved` is the number that is connected to, whatever the host's name leads to by now; "" to ask the resolver. TLS
    checks the name either way.
    """

    host: str
    port: int
    tls: bool
    base: str
    secret: str = field(default="", repr=False)
    handoff_fd: int | None = None
    resolved: str = ""

    @classmethod
    def parse(cls, url: str, secret: str = "") -> "Address":
        """The address in a URL such as `http://127.0.0.1:8000/v1`, its path `/v1` if none. Raises BadAddress."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise BadAddress(f"{url!r} is no address: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadAddress(f"{url!r} is not an address such as http://127.0.0.1:8000/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise BadAddress("the address holds a name, a password, a query or a fragment; give host, port and path")
        if not (secret.isascii() and secret.isprintable() and " " not in secret):
            raise BadAddress("the API key is none: it holds characters that no header may have")
        base = parts.path.rstrip("/")
        for api in API_PATHS:
            base = base.removesuffix(api)
        tls = parts.scheme == "https"
        return cls(parts.hostname, port or (443 if tls else 80), tls, base or "/v1", secret)

    @property
    def url(self) -> str:
        """The address for people, without the key."""
        return f"{'https' if self.tls else 'http'}://{self.netloc}{self.base}"

    @property
    def netloc(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def here(self) -> bool:
        """Whether the server is known to run on this machine."""
        return self.handoff_fd is not None or (self.resolved or self.host) in LOOPBACK

    def head(self, path: str, length: int) -> bytes:
        """The head of a POST of `length` bytes of JSON."""
        lines = [
            f"POST {self.base}{path} HTTP/1.1",
            f"Host: {self.netloc}",
            "User-Agent: kernel-workbench",
            "Accept: text/event-stream, application/json",
            "Accept-Encoding: identity",
            "Content-Type: application/json",
            f"Content-Length: {length}",
        ]
        if self.secret:
            lines.append(f"Authorization: Bearer {self.secret}")
        return "\r\n".join([*lines, "", ""]).encode("ascii")

    def hidden(self, sentence: str) -> str:
        """A sentence of the server without the key, should it repeat it or a part of it."""
        return without_key(sentence, self.secret)


class Connections:
    """The connections to one server. `send` takes an idle one or opens another; call it inside one event loop."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.idle: list[Connection] = []
        self._tls = ssl.create_default_context() if address.tls else None

    async def send(self, path: str, body: bytes, streamed: bool, exchange: Exchange, time_out_s: float) -> None:
        """Sends a request and reads its whole answer into `exchange`; how it failed is in there as well."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + time_out_s - (time.monotonic_ns() - exchange.intended_ns) / 1e9
        ended: asyncio.Future[None] = loop.create_future()
        timer = loop.call_at(deadline, self._time_out, exchange, time_out_s, ended)
        try:
            while not ended.done():
                reused = bool(self.idle)
                connection = self.idle.pop() if reused else await self._open(exchange)
                if connection is None:
                    break
                if ended.done():  # timed out while it was opened
                    connection.drop()
                    break
                connection.begin(self.address.head(path, len(body)), body, streamed, exchange, ended)
                try:
                    await ended
                finally:
                    connection.leave()
                if not (reused and exchange.error == NOTHING and not exchange.first_byte_ns):
                    break
                exchange.error = exchange.sentence = ""  # the server had closed the kept connection: once more
                exchange.end_ns, ended = 0, loop.create_future()
                timer.cancel()
                timer = loop.call_at(deadline, self._time_out, exchange, time_out_s, ended)
        finally:
            timer.cancel()
        if exchange.sentence:
            exchange.sentence = self.address.hidden(exchange.sentence)

    def close(self) -> None:
        for connection in self.idle[:]:
            connection.drop()

    async def _open(self, exchange: Exchange) -> "Connection | None":
        loop, address = asyncio.get_running_loop(), self.address
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await self._connect(loop)
        except TimeoutError:
            reason = f"no answer within {CONNECT_SECONDS:g} s"
        except OSError as error:
            reason = _unreachable(error)
        else:
            return connection
        sentence = f"{address.netloc} cannot be reached: {reason}."
        exchange.fail(NO_CONNECTION, sentence, time.monotonic_ns())
        return None

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> "tuple[asyncio.Transport, Connection]":
        address = self.address
        if address.handoff_fd is not None:
            return await loop.create_connection(lambda: Connection(self.idle), sock=hand_off(address.handoff_fd))
        return await loop.create_connection(
            lambda: Connection(self.idle),
            address.resolved or address.host,
            address.port,
            ssl=self._tls,
            server_hostname=address.host if self._tls else None,
        )

    @staticmethod
    def _time_out(exchange: Exchange, time_out_s: float, ended: "asyncio.Future[None]") -> None:
        if not ended.done():
            got = f"{len(exchange.chunk_ns)} events" if exchange.chunk_ns else "nothing"
            sentence = f"A request had not ended {time_out_s:g} s after it was due; {got} had come."
            exchange.fail(TIMED_OUT, sentence, time.monotonic_ns())
            ended.set_result(None)


class Connection(asyncio.Protocol):
    """One connection; between `begin` and `leave` it belongs to one exchange."""

    def __init__(self, idle: "list[Connection]") -> None:
        self._idle = idle
        self._exchange: Exchange | None = None
        self._answer: AnswerParser | None = None
        self._ended: asyncio.Future[None] | None = None

    def begin(
        self, head: bytes, body: bytes, streamed: bool, exchange: Exchange, ended: "asyncio.Future[None]"
    ) -> None:
        """Writes a request. `ended` is done when its answer is."""
        self._exchange, self._ended, self._answer = exchange, ended, AnswerParser(exchange, streamed)
        self._transport.write(head + body)
        exchange.sent_ns = time.monotonic_ns()

    def leave(self) -> None:
        """Keeps the connection where its answer was read to the end, and closes it otherwise."""
        reusable = self._answer is not None and self._answer.reusable
        self._exchange = self._answer = self._ended = None
        if reusable and not self._transport.is_closing():
            self._idle.append(self)
        else:
            self.drop()

    def drop(self) -> None:
        """Closes the connection at once."""
        if self in self._idle:
            self._idle.remove(self)
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio hands over the socket."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Takes the time, then reads what came."""
        now_ns, exchange, answer = time.monotonic_ns(), self._exchange, self._answer
        if exchange is None or answer is None:
            self.drop()  # nothing was asked
            return
        exchange.first_byte_ns = exchange.first_byte_ns or now_ns
        if answer.feed(data, now_ns):
            self._end()

    def connection_lost(self, error: Exception | None) -> None:
        """An answer without a stated length ends here; any other is half an answer."""
        if self in self._idle:
            self._idle.remove(self)
        now_ns, exchange, answer = time.monotonic_ns(), self._exchange, self._answer
        if exchange is None or answer is None or self._ended is None or self._ended.done():
            return
        if error is not None or not answer.end(now_ns):
            exchange.fail(*_broken_off(exchange), now_ns)
        self._end()

    def _end(self) -> None:
        if self._ended and not self._ended.done():
            self._ended.set_result(None)


def hand_off(handoff_fd: int) -> socket.socket:
    """A new connection, whose other end is handed over. Raises OSError when the server is gone."""
    ours, theirs = socket.socketpair()
    with theirs, socket.socket(fileno=os.dup(handoff_fd)) as through:
        try:
            socket.send_fds(through, [b"+"], [theirs.fileno()])
        except OSError:
            ours.close()
            raise
    return ours


def _unreachable(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); SSL_CERT_FILE names a file of trusted ones"
    if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return "it does not speak TLS; give its address with http"
    return error.strerror or str(error)


def _broken_off(exchange: Exchange) -> tuple[str, str]:
    if not exchange.first_byte_ns:
        return NOTHING, "The server closed the connection without an answer."
    return HALF, f"The server closed the connection in the middle of an answer, after {len(exchange.chunk_ns)} events."
