"""A request's body, up to its largest size: a small one is read at once, a large one in a process of its own."""

from starlette.requests import Request

from kernels.server.http.body_parsing import Document, document_in
from kernels.server.http.body_process import BodyReader
from kernels.server.http.errors import ApiError, quoted

LARGEST_BODY = 8 << 20
LARGE_BODY = 64 << 10
"""The least bytes of a body that the server's own process does not read. One of so many may take 3 ms."""


async def document_of(
    request: Request, kind: type[Document], longest: int | None = None, reader: BodyReader | None = None
) -> Document:
    """The request's body as a document, whose prompts have `longest` tokens at most. `reader` reads large ones; None:
    this process does. Raises ApiError.
    """
    too_large = ApiError(413, f"the body exceeds {LARGEST_BODY >> 20} MiB")
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise ApiError(415, f"Content-Encoding {quoted(encoding)} is not served here: send the body as it is")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > LARGEST_BODY:
        raise too_large
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BODY:
            raise too_large
    if reader is None or len(body) < LARGE_BODY:
        return document_in(bytes(body), kind, longest)
    return await reader.read(kind, bytes(body), longest)
