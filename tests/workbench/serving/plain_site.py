"""A WSGI application for the server's tests: /file is FILE_BYTES zeros, /compute takes a second,
/queries gives the interpreter up QUERIES times, /unsized does not say its length; a PATCH is told the size of its body.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

from workbench.serving import pace

IDLE_SECONDS = 4
pace.GRACE_SECONDS = 3
pace.IDLE_SECONDS = IDLE_SECONDS
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workbench.settings")
FILE_BYTES = 2**27
QUERIES = 100
_file = tempfile.NamedTemporaryFile()  # noqa: SIM115, it lives as long as the process
_file.truncate(FILE_BYTES)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    size = 0
    if environ["PATH_INFO"] == "/file":
        start_response("200 OK", [("Content-Length", str(FILE_BYTES))])
        return environ["wsgi.file_wrapper"](open(_file.name, "rb"))  # type: ignore[no-any-return]
    if environ["PATH_INFO"] == "/compute":
        ends = time.monotonic() + 1
        while time.monotonic() < ends:
            size += 1
    if environ["PATH_INFO"] == "/queries":
        for _ in range(QUERIES):
            time.sleep(0.0002)  # gives the interpreter up, as a query does
    if environ["REQUEST_METHOD"] == "PATCH":
        while chunk := environ["wsgi.input"].read(2**16):
            size += len(chunk)
    body = str(size).encode()
    if environ["PATH_INFO"] == "/unsized":
        start_response("200 OK", [])
        return iter([body, body])
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
