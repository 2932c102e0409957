"""Answers to HEAD: the headers of a GET without its body, which waitress leaves to the application.

A body behind them would be read as the beginning of the next answer on the same connection (RFC 9110, section 9.3.2).
"""

from collections.abc import Callable, Iterable
from typing import Any

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
WITHOUT_LENGTH = ("1", "204", "304")
"""Statuses, by their beginnings, that never have a body."""


def headers_alone(application: Application) -> Application:
    """The WSGI application, whose answers to HEAD have no body, and the Content-Length of the one left out."""

    def answered(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "HEAD":
            return application(environ, start_response)
        begun: list[Any] = []
        body = application(environ, lambda *line: begun.extend(line[:2]))
        status, headers = begun
        try:
            known = any(name.lower() == "content-length" for name, _ in headers)
            if not known and not status.startswith(WITHOUT_LENGTH):
                headers = [*headers, ("Content-Length", str(sum(map(len, body))))]
        finally:
            getattr(body, "close", lambda: None)()
        start_response(status, headers)
        return []

    return answered
