"""Bytes of an upload on their way to the disk: at an offset, in chunks, hashed as they pass."""

import fcntl
import hashlib
import os
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from django.http import Http404
from django.http.request import UnreadablePostError
from django.utils import timezone

from workbench.api.problems import Problem
from workbench.intake import blobs
from workbench.intake.models import Upload, UploadFile
from workbench.intake.services import quota


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class WrongOffset(Problem):
    """409: the bytes do not continue what is there. `offset` is where the next byte goes."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(409, f"{path}: Upload-Offset: {reason}", [{"file": path, "field": "Upload-Offset"}])
        self.errors[0]["reason"] = reason
        self.offset = offset


class RunningHashes:
    """SHA-256 states of the files that this process receives. A lost state is computed again at the end."""

    def __init__(self, most: int = 256) -> None:
        self._states: OrderedDict[int, tuple[int, Any]] = OrderedDict()
        self._most, self._lock = most, Lock()

    def take(self, key: int, offset: int) -> Any | None:
        """The state after `offset` bytes, or None when it is not known."""
        if offset == 0:
            return hashlib.sha256()
        with self._lock:
            at, state = self._states.pop(key, (-1, None))
        return state if at == offset else None

    def keep(self, key: int, offset: int, state: Any) -> None:
        """Remembers the state after `offset` bytes."""
        with self._lock:
            self._states[key] = (offset, state)
            while len(self._states) > self._most:
                self._states.popitem(last=False)


running = RunningHashes()


def folder_of(upload: Upload) -> Path:
    """Where the upload's bytes are collected."""
    return blobs.incoming() / str(upload.id)


def file_of(upload: Upload, number: int) -> Path:
    """Where the bytes of one file are collected."""
    return folder_of(upload) / str(number)


def discard(upload: Upload) -> None:
    """Removes the upload, its rows and its bytes."""
    Upload.objects.filter(pk=upload.pk).delete()
    shutil.rmtree(folder_of(upload), ignore_errors=True)


def append(upload: Upload, number: int, offset: int, stream: Readable, length: int) -> UploadFile:
    """Writes up to `length` bytes from the stream at `offset`; what came before a broken connection is kept.

    Raises WrongOffset, Problem 409, 413 or (the disk is full) 507, and Http404 when the upload is gone.
    """
    with _locked(upload, number) as (row, out):
        if row.upload.state != Upload.State.OPEN:
            raise Problem(409, "The upload is being finished; it takes no more bytes.")
        if offset != row.received:
            raise WrongOffset(row.path, row.received, f"the next byte is number {row.received}, not {offset}")
        if offset + length > row.size:
            reason = f"{offset + length:,} bytes are more than the {row.size:,} announced"
            raise Problem(413, f"{row.path}: size: {reason}", [{"file": row.path, "field": "size", "reason": reason}])
        quota.check_space(length)
        state = running.take(row.pk, offset)
        out.truncate(offset)
        out.seek(offset)
        try:
            row.received = offset + _copy(stream, out, length, state)
        except BaseException:
            out.truncate(offset)
            raise
        _record(row, offset, state)
        return row


def _copy(stream: Readable, out: RawIOBase, length: int, state: Any | None) -> int:
    done = 0
    while done < length:
        try:
            chunk = stream.read(min(blobs.CHUNK, length - done))
        except UnreadablePostError:
            break
        if not chunk:
            break
        quota.check_space(len(chunk))
        _write(out, chunk)
        if state is not None:
            state.update(chunk)
        done += len(chunk)
    os.fsync(out.fileno())
    return done


def _write(out: RawIOBase, chunk: bytes) -> None:
    """Writes all of the chunk: one call may write only a part of it."""
    left = memoryview(chunk)
    while left:
        left = left[out.write(left) :]


def _record(row: UploadFile, offset: int, state: Any | None) -> None:
    if state is not None and row.received == row.size:
        row.digest = state.hexdigest()
    elif state is not None:
        running.keep(row.pk, row.received, state)
    changed = UploadFile.objects.filter(pk=row.pk, received=offset).update(received=row.received, digest=row.digest)
    if not changed:
        raise Http404
    Upload.objects.filter(pk=row.upload_id).update(touched_at=timezone.now())


@contextmanager
def _locked(upload: Upload, number: int) -> Iterator[tuple[UploadFile, RawIOBase]]:
    """The file's row, read while this process alone may write its bytes; 409 when another request is writing."""
    if not UploadFile.objects.filter(upload=upload, number=number).exists():
        raise Http404
    folder_of(upload).mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file_of(upload, number), os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b", buffering=0) as out:
        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy = UploadFile.objects.get(upload=upload, number=number)
            raise WrongOffset(busy.path, busy.received, "another request is writing this file") from None
        row = UploadFile.objects.select_related("upload").filter(upload=upload, number=number).first()
        if row is None:
            shutil.rmtree(folder_of(upload), ignore_errors=True)
            raise Http404
        yield row, out
