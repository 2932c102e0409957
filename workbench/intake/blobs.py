"""Files by content hash: `settings.BLOBS/<aa>/<sha256>`. A blob is complete, or it does not exist."""

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import FileResponse, Http404

CHUNK = 1 << 20
GRACE_SECONDS = 24 * 3600
"""A blob younger than this is never removed, since a row that refers to it may be about to be written."""


def path_of(sha256: str) -> Path:
    """The path of the blob, existing or not. Raises ValueError when `sha256` is not 64 lower-case hex digits."""
    if len(sha256) != 64 or set(sha256) - set("0123456789abcdef"):
        raise ValueError("sha256: a content hash is 64 lower-case hex digits")
    return Path(settings.BLOBS) / sha256[:2] / sha256


def response(row: Any, missing: str = "", **options: Any) -> FileResponse:
    """The content of the blob that `row` refers to. Raises Http404 when there is no row or no blob."""
    if row is None or not path_of(row.sha256).exists():
        raise Http404(missing)
    return FileResponse(path_of(row.sha256).open("rb"), **{"content_type": "application/octet-stream"} | options)


def incoming() -> Path:
    """The directory of what is still being received, on the blobs' own file system."""
    folder = Path(settings.BLOBS) / "incoming"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def adopt(file: Path, sha256: str) -> None:
    """Makes a received file, whose hash the caller has computed, the blob `sha256`; atomic.

    The file stays where it is (the blob is a link to it), so that the caller can begin again until its rows are kept.
    """
    target = path_of(sha256)
    target.parent.mkdir(parents=True, exist_ok=True)
    link = incoming() / f"link-{uuid.uuid4()}"
    with _locked(fcntl.LOCK_SH):
        os.utime(file)
        os.link(file, link)
        try:
            os.replace(link, target)
        finally:
            link.unlink(missing_ok=True)
    _sync_folder(target.parent)


def store(chunks: Iterable[bytes], expect: str | None = None) -> tuple[str, int]:
    """Writes the chunks as a blob, hashing as they pass. Returns (sha256, size).

    Raises ValueError when the content does not have the hash `expect`; then nothing is kept.
    """
    digest, size = hashlib.sha256(), 0
    descriptor, name = tempfile.mkstemp(dir=incoming(), prefix="blob-")
    file = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            for chunk in chunks:
                stream.write(chunk)
                digest.update(chunk)
                size += len(chunk)
            stream.flush()
            os.fsync(stream.fileno())
        sha256 = digest.hexdigest()
        if expect is not None and sha256 != expect:
            raise ValueError(f"sha256: the content has the hash {sha256}, not {expect}")
        adopt(file, sha256)
    finally:
        file.unlink(missing_ok=True)
    return sha256, size


def collect(digests: set[str]) -> int:
    """Removes the blobs that are not wanted and older than the grace; returns how many."""
    oldest, removed = time.time() - GRACE_SECONDS, 0
    for blob in Path(settings.BLOBS).glob("[0-9a-f][0-9a-f]/*"):
        if blob.name not in digests:
            removed += remove(blob.name, oldest)
    return removed


def remove(sha256: str, older_than: float) -> bool:
    """Removes a blob that was last stored before `older_than` (seconds of the epoch); whether it did."""
    blob = path_of(sha256)
    with _locked(fcntl.LOCK_EX):
        if not blob.exists() or blob.stat().st_mtime >= older_than:
            return False
        blob.unlink()
        return True


@contextmanager
def _locked(kind: int) -> Iterator[None]:
    """A lock on the blobs. Removing looks at a blob's time and then removes it: between the two nobody stores one."""
    Path(settings.BLOBS).mkdir(parents=True, exist_ok=True)
    descriptor = os.open(settings.BLOBS, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


def sweep_incoming(upload_ids: set[str], older_than_seconds: float) -> None:
    """Removes what was left among the incoming files, but for the folders named in `upload_ids`."""
    for entry in incoming().iterdir():
        if entry.name in upload_ids or time.time() - entry.stat().st_mtime < older_than_seconds:
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
