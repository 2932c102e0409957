"""The disk: how much of it is free, how a full one shows, and room that a deletion can count on."""

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

ROOM_BYTES = 16 * 2**20
"""Kept by a file that a deletion may remove: SQLite writes a journal before it frees anything."""
SCARCE_BYTES = 4 * 2**20
"""With less than this, a write to the database may fail."""
PAGES_AT_ONCE = 1024
INCREMENTAL = 2
"""SQLite's number of auto_vacuum=INCREMENTAL."""
FULL = {errno.ENOSPC, errno.EDQUOT}
POSTGRES_DISK_FULL = "53100"
SQLITE_CANNOT_WRITE = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
"""What SQLite says instead of SQLITE_FULL when its log or its shared memory cannot grow."""


def free_bytes(folder: Path) -> int:
    """Bytes that this process may still write on the file system of `folder`, or of its nearest parent that exists."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def is_full(error: BaseException | None) -> bool:
    """Whether `error`, or one that it comes from, says that a disk or a disk quota is full."""
    return any(_says_full(cause) for cause in chain(error))


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and those that it comes from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _says_full(error: BaseException) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return code == sqlite3.SQLITE_FULL or (code in SQLITE_CANNOT_WRITE and is_scarce())
    if isinstance(error, OSError) and error.errno in FULL:
        return True
    return getattr(error, "sqlstate", "") == POSTGRES_DISK_FULL


def is_scarce() -> bool:
    """Whether the data directory's file system is as good as full."""
    return free_bytes(settings.WORKBENCH_DATA) < SCARCE_BYTES


def hold_database() -> None:
    """Keeps one connection to SQLite open: the last one to close removes its log, which a full disk has no space for
    when the next one opens. Call it in a thread that handles no request."""
    if connection.vendor == "sqlite":
        connection.ensure_connection()


def make_shrinkable(**_: Any) -> None:
    """Before the first migration: SQLite takes the setting only as it writes its file anew, outside a transaction."""
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        if cursor.execute("PRAGMA auto_vacuum").fetchone() != (INCREMENTAL,):
            cursor.execute(f"PRAGMA auto_vacuum={INCREMENTAL}")
            cursor.execute("VACUUM")


def shrink_database() -> None:
    """Gives the file system what deleted rows took of SQLite's file; PostgreSQL's autovacuum keeps it for other rows.

    In small steps, since each is written to SQLite's log before it frees anything.
    """
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        while True:
            before = cursor.execute("PRAGMA freelist_count").fetchone()[0]
            cursor.execute(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})").fetchall()
            if cursor.execute("PRAGMA freelist_count").fetchone()[0] in (0, before):
                return


def _free_bytes() -> Path:
    return Path(settings.WORKBENCH_DATA) / "room"


def keep_room() -> None:
    """Makes the file that keeps room for deletions, where it is missing and there is space for it."""
    free = _free_bytes()
    if free.exists() or free_bytes(free.parent) < 2 * ROOM_BYTES:
        return
    making = free.with_suffix(f".{os.getpid()}")
    try:
        with making.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, ROOM_BYTES)
        making.replace(free)
    except OSError as error:
        if not is_full(error):
            raise
    finally:
        making.unlink(missing_ok=True)


def give_room() -> None:
    """Gives the room back to the file system; the sweep takes it again once there is space."""
    _free_bytes().unlink(missing_ok=True)
