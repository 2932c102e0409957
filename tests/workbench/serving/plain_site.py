"""A WSGI application for the server's tests: /file is FILE_BYTES zeros; a PATCH is told the size of its body."""

import os
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

from workbench.serving import pace

pace.GRACE_SECONDS = 3
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workbench.settings")
FILE_BYTES = 2**28
_file = tempfile.NamedTemporaryFile()  # noqa: SIM115, it lives as long as the process
_file.truncate(FILE_BYTES)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    size = 0
    if environ["PATH_INFO"] == "/file":
        start_response("200 OK", [("Content-Length", str(FILE_BYTES))])
        return environ["wsgi.file_wrapper"](open(_file.name, "rb"))  # type: ignore[no-any-return]
    if environ["REQUEST_METHOD"] == "PATCH":
        while chunk := environ["wsgi.input"].read(2**16):
            size += len(chunk)
    body = str(size).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
