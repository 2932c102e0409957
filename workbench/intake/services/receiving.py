"""Bytes of an upload on their way to the disk: at an offset, in chunks, hashed as they pass.

A model's config.json is checked as soon as all of it is there, by the ledger's worker.
"""

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

from kernels.model_files import ModelRefused
from workbench.api import quota
from workbench.api.sentences import Problem, invalid
from workbench.intake import blobs
from workbench.intake.models import Upload, UploadFile
from workbench.intake.services import queue

CONFIG = "config.json"


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class WrongOffset(Problem):
    """409: the bytes do not continue what is there. `offset` is where the next byte goes."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(409, f"{path}: Upload-Offset: {reason}", [{"file": path, "field": "Upload-Offset"}])
        self.errors[0]["reason"] = reason
        self.offset = offset


CATCH_UP_BYTES = 2**28
"""How much of what other processes received one request hashes: a quarter of a second to half a second."""


class RunningHashes:
    """SHA-256 states of the files that this process receives, by the file's key.

    A state may lag behind what has come, when another process received the bytes or this one is new; it catches up
    from the file. The oldest states are forgotten beyond `most`, and begin again.
    """

    def __init__(self, max_uploads: int = 256) -> None:
        self._states: OrderedDict[int, tuple[int, Any]] = OrderedDict()
        self._most, self._lock = max_uploads, Lock()

    def forget(self, row: UploadFile) -> None:
        """Begins again with the file's next bytes."""
        with self._lock:
            self._states.pop(row.pk, None)

    def follow(self, row: UploadFile, file: RawIOBase, at_most: int | None = None) -> str:
        """Hashes on up to what has been received, `at_most` bytes of it; the digest once the whole file is hashed."""
        with self._lock:
            at, state = self._states.pop(row.pk, (0, None))
        if state is None or at > row.received:
            at, state = 0, hashlib.sha256()
        file.seek(at)
        until = row.received if at_most is None else min(row.received, at + at_most)
        while at < until and (chunk := file.read(min(blobs.CHUNK, until - at))):
            state.update(chunk)
            at += len(chunk)
        if at == row.size:
            return str(state.hexdigest())
        with self._lock:
            self._states[row.pk] = (at, state)
            while len(self._states) > self._most:
                self._states.popitem(last=False)
        return ""


running = RunningHashes()


def folder_of(upload: Upload) -> Path:
    """Where the upload's bytes are collected."""
    return blobs.incoming() / str(upload.id)


def file_of(upload: Upload, number: int) -> Path:
    """Where the bytes of one file are collected."""
    return folder_of(upload) / str(number)


def refused(error: ModelRefused) -> Problem:
    """The 422 of a model that is not taken."""
    return invalid(error.reasons)


def discard(upload: Upload) -> None:
    """Removes the upload, its rows and its bytes."""
    Upload.objects.filter(pk=upload.pk).delete()
    shutil.rmtree(folder_of(upload), ignore_errors=True)


def check_receiving(upload: Upload) -> None:
    """Raises the Problem of an upload that was refused, and Problem 409 when it takes no bytes any more."""
    if upload.state == Upload.State.REFUSED:
        raise problem_of(upload)
    if upload.state != Upload.State.RECEIVING:
        raise Problem(409, f"upload: it is {upload.state}, and takes no bytes any more")


def append(upload: Upload, number: int, offset: int, stream: Readable, length: int) -> UploadFile:
    """Writes up to `length` bytes from the stream at `offset`; what came before a broken connection is kept.

    Raises WrongOffset, Problem 409, 413 or (the disk is full) 507, and Http404 when the upload is gone. Problem 422
    when the upload was refused meanwhile, since its config.json came and is no model's.
    """
    check_receiving(upload)
    with _locked(upload, number) as (row, out):
        if offset != row.received:
            raise WrongOffset(row.path, row.received, f"the next byte is number {row.received}, not {offset}")
        if offset + length > row.size:
            reason = f"{offset + length:,} bytes are more than the {row.size:,} announced"
            raise Problem(413, f"{row.path}: size: {reason}", [{"file": row.path, "field": "size", "reason": reason}])
        quota.check_space(length)
        out.truncate(offset)
        out.seek(offset)
        try:
            row.received = offset + _copy(stream, out, length)
        except BaseException:
            out.truncate(offset)
            raise
        if offset == 0:
            running.forget(row)
        row.digest = running.follow(row, out, CATCH_UP_BYTES)
        _record(row, offset)
        return row


def _copy(stream: Readable, out: RawIOBase, length: int) -> int:
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
        done += len(chunk)
    os.fsync(out.fileno())
    return done


def _write(out: RawIOBase, chunk: bytes) -> None:
    """Writes all of the chunk: one call may write only a part of it."""
    rest = memoryview(chunk)
    while rest:
        rest = rest[out.write(rest) :]


def _record(row: UploadFile, offset: int) -> None:
    changed = UploadFile.objects.filter(pk=row.pk, received=offset).update(received=row.received, digest=row.digest)
    if not changed:
        raise gone(row.upload)
    changes: dict[str, Any] = {"touched_at": timezone.now()}
    config_came = row.path == CONFIG and row.received == row.size and row.upload.holds == Upload.Holds.MODEL
    if config_came:
        changes["config_waits"] = True
    Upload.objects.filter(pk=row.upload_id).update(**changes)
    if config_came:
        queue.check_soon()


def gone(upload: Upload) -> Exception:
    """What to raise where an upload's files have gone: its Problem when it was refused, otherwise Http404."""
    ended = Upload.objects.filter(pk=upload.pk, state=Upload.State.REFUSED).first()
    return problem_of(ended) if ended else Http404()


def problem_of(upload: Upload) -> Problem:
    """Why an upload was refused."""
    document: Any = upload.problem
    return Problem(document["status"], document["detail"], document["errors"])


@contextmanager
def _locked(upload: Upload, number: int) -> Iterator[tuple[UploadFile, RawIOBase]]:
    """The file's row, read while this process alone may write its bytes; 409 when another request is writing."""
    if not UploadFile.objects.filter(upload=upload, number=number).exists():
        raise gone(upload)
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
            raise gone(upload)
        yield row, out
