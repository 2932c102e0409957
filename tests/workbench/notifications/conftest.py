"""Receivers on this machine: of HTTP, which keeps what was posted, and of SMTP."""

import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from workbench.notifications import services
from workbench.notifications.models import POSTED

KINDS = [kind for kind, _ in POSTED]


@dataclass
class Receiver:
    """An HTTP server that answers `status`, then keeps what was posted: headers in lower case, and the body."""

    port: int
    status: int = 200
    posted: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?a=b"


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    """A receiver that the operator allows by WEBHOOK_ALLOWED_HOSTS."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            made.posted.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(made.status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Receiver(server.server_port)
    settings.WEBHOOK_ALLOWED_HOSTS = [f"127.0.0.1:{made.port}"]
    yield from _served(server, made)


@pytest.fixture
def mailbox(settings: Any) -> Iterator[list[EmailMessage]]:
    """What a mail server on this machine was handed."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 test\r\n")
            while line := self.rfile.readline():
                word = line.strip().upper()[:4]
                self.wfile.write(b"354 go on\r\n" if word == b"DATA" else b"250 ok\r\n")
                if word == b"DATA":
                    lines = list(iter(self.rfile.readline, b".\r\n"))
                    kept.append(message_from_bytes(b"".join(lines), policy=policy.default))
                    self.wfile.write(b"250 kept\r\n")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept: list[EmailMessage] = []
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", server.server_address[1], False
    yield from _served(server, kept)


def _served(server: Any, made: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def hook(receiver: Receiver, organisation: Any, admin: Any) -> Callable[..., tuple[Any, str]]:
    """`hook()`: a webhook of the organisation to the receiver, for every kind, and its secret."""
    return lambda url=receiver.url, kinds=KINDS: services.add(organisation, admin, url, kinds)
