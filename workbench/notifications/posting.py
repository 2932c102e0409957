"""Posts one message: to the address that was checked, within seconds, following nothing, reading no body."""

import ssl
import time
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import httpcore

from workers.shared.addresses import Destination, resolve

SECONDS = 10.0
"""The whole exchange, from the connection to the end of the answer's headers."""


class _Deadline:
    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def left(self, timeout: float | None) -> float:
        """What remains, `timeout` at most. Raises httpcore.ReadTimeout when nothing does."""
        seconds = self.end - time.monotonic()
        if seconds <= 0:
            raise httpcore.ReadTimeout(f"no answer within {SECONDS:.0f} seconds")
        return min(seconds, timeout or seconds)


class _TimedStream(httpcore.NetworkStream):
    """A stream all of whose waits end together, so that an answer in drips gains nothing."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: _Deadline) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        secured = self._stream.start_tls(ssl_context, server_hostname, self._deadline.left(timeout))
        return _TimedStream(secured, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Pinned(httpcore.NetworkBackend):
    """Connects to one address, whatever the host's name resolves to by now. TLS still checks the name."""

    def __init__(self, address: str, deadline: _Deadline) -> None:
        self._address, self._deadline = address, deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        seconds = self._deadline.left(timeout)
        return _TimedStream(httpcore.SyncBackend().connect_tcp(self._address, port, seconds), self._deadline)


@cache
def _trusted() -> ssl.SSLContext:
    """The system's authorities, or those of SSL_CERT_FILE."""
    return ssl.create_default_context()


def post(target: Destination, headers: Mapping[str, str], body: bytes) -> int:
    """The status of the answer. Raises AddressRefused, OSError, or an httpcore error.

    The host is resolved once and each of its addresses checked; the connection goes to the address that was checked.
    Redirects are answers like others. Neither proxies nor credentials of the environment are used.
    """
    address = resolve(target)
    url = httpcore.URL(
        scheme=target.scheme.encode(), host=target.host.encode(), port=target.port, target=target.path.encode()
    )
    sent = {"host": _host(target), "content-type": "application/json", "user-agent": "Kernel-Workbench", **headers}
    sent["content-length"] = str(len(body))
    pool = httpcore.ConnectionPool(
        ssl_context=_trusted(), network_backend=_Pinned(address, _Deadline(SECONDS)), max_keepalive_connections=0
    )
    with pool, pool.stream("POST", url, headers=list(sent.items()), content=body) as answer:
        return answer.status


def _host(target: Destination) -> str:
    name = f"[{target.host}]" if ":" in target.host else target.host
    return name if target.port == {"https": 443, "http": 80}[target.scheme] else f"{name}:{target.port}"
