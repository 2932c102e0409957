"""How large a request's body may be: known from its headers, before anything reads it."""

import re

KIB, MIB = 2**10, 2**20
ANONYMOUS_BYTES = 64 * KIB
"""For a request that shows neither a session nor a token; those that show a false one get the limits below."""
FORM_BYTES = MIB
DOCUMENT_BYTES = MIB
"""For JSON."""
UPLOAD_BYTES = 4 * MIB
"""For the names of an upload's files: a thousand long ones have about one."""
API = "/api/"
WORKER = "/api/v1/worker/"
UPLOADS = "/api/v1/uploads"
CHUNK = re.compile(r"/api/v1/uploads/[^/]+/files/[^/]+")


def body_limit(method: str, path: str, credential: bool) -> int | None:
    """The most bytes that a body may have; None for a chunk of an upload and for the worker API, whose views count.

    `credential`: whether the request shows a session, or under /api/ a token.
    """
    if not credential:
        return ANONYMOUS_BYTES
    if not path.startswith(API):
        return FORM_BYTES
    if path.startswith(WORKER) or (method == "PATCH" and CHUNK.fullmatch(path)):
        return None
    return UPLOAD_BYTES if path.startswith(UPLOADS) else DOCUMENT_BYTES
