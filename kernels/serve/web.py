"""The settings of uvicorn that every server of a model has."""

from typing import Any

import uvicorn
from starlette.applications import Starlette

KEEP_ALIVE_SECONDS = 75
"""How long a connection without a request stays open. A client that sends its next request while the server closes
gets a reset, so it is longer than the pauses of people and than those for which proxies and clients keep connections.
"""


def settings(app: Starlette, **more: Any) -> uvicorn.Config:
    """The configuration of a web server of `app`; `more` as `uvicorn.Config` takes it."""
    return uvicorn.Config(app, log_level="warning", ws="none", timeout_keep_alive=KEEP_ALIVE_SECONDS, **more)
