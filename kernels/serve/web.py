"""The settings of uvicorn that every server of a model has, and the sockets of one that listens by itself."""

import asyncio
import socket
from typing import Any

import uvicorn
from starlette.applications import Starlette

KEEP_ALIVE_SECONDS = 75
"""How long a connection without a request stays open. A client that sends its next request while the server closes
gets a reset, so it is longer than the pauses of people and than those for which proxies and clients keep connections.
"""

BACKLOG = 2048
"""Connections that wait until they are taken."""


def settings(app: Starlette, **more: Any) -> uvicorn.Config:
    """The configuration of a web server of `app`; `more` as `uvicorn.Config` takes it."""
    return uvicorn.Config(app, log_level="warning", ws="none", timeout_keep_alive=KEEP_ALIVE_SECONDS, **more)


async def listening(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at the host's addresses. Raises ValueError where one is in use, or is not this machine's."""
    try:
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port, start_serving=False)
        found = [each.dup() for each in server.sockets]
        server.close()
        for each in found:
            each.listen(BACKLOG)
    except OSError as error:
        raise ValueError(f"--host and --port: {error.strerror or error}") from error
    return found
