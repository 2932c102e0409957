"""A database that is locked or unavailable: how that shows, and how long a page's server waits for it."""

import sqlite3
import sys

from django.db import connection

from workbench.storage.disk import chain

WAIT_SECONDS = 5
RETRY_SECONDS = 5
"""What who is answered 503 is asked to wait."""
SQLITE_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
POSTGRES_LOCKED = {"55P03", "40P01", "53300"}
"""A lock was not had in time, two transactions waited for each other, or there were too many connections."""


def is_unavailable(error: BaseException | None) -> bool:
    """Whether `error`, or one that it comes from, says that the database is locked or cannot be reached."""
    return any(_says_unavailable(cause) for cause in chain(error))


def _says_unavailable(error: BaseException) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in SQLITE_LOCKED
    psycopg = sys.modules.get("psycopg")  # a site on SQLite does not import it, which takes a twelfth of its start
    if not psycopg or not isinstance(error, psycopg.OperationalError):
        return False
    state = error.sqlstate or ""
    return not state or state in POSTGRES_LOCKED or state.startswith(("08", "57P"))  # no connection, or it is ended


def wait_less() -> None:
    """Wait WAIT_SECONDS for a lock: a request that waits holds a thread. For every connection of this process."""
    options = connection.settings_dict.setdefault("OPTIONS", {})
    if connection.vendor == "sqlite":
        options["timeout"] = WAIT_SECONDS
    else:
        options["options"] = f"-c lock_timeout={WAIT_SECONDS}s"
