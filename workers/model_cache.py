"""Models on the worker's disk, by digest: fetched once, verified by hash, least recently used first to go."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Protocol

from workers.documents.model import ModelFile, ModelManifest

DRAFT = ".draft-"


class Source(Protocol):
    """Where a model's files come from."""

    def file(self, digest: str, path: str) -> Iterable[bytes]: ...


class BadModel(Exception):
    """A fetched file is not what the manifest says; the message is a sentence."""


class ModelCache:
    """Directories `<root>/<digest>` of at most `max_bytes` in all, shared by the workers of one machine."""

    def __init__(self, root: Path, max_bytes: int) -> None:
        self.root = root
        self.max_bytes = max_bytes
        root.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def model(self, manifest: ModelManifest, source: Source) -> Iterator[Path]:
        """The model's directory, kept in place while the context lasts.

        Raises BadModel when a file differs from the manifest; whatever `source` raises passes through.
        """
        directory = self.root / _plain(manifest.digest)
        with (self.root / f"{manifest.digest}.lock").open("a") as lock:
            while not directory.exists():
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not directory.exists():
                    self._make_room(sum(file.size for file in manifest.files))
                    self._fetch(manifest, source, directory)
                fcntl.flock(lock, fcntl.LOCK_SH)  # gives the lock up for a moment, so look again
            fcntl.flock(lock, fcntl.LOCK_SH)
            os.utime(directory)
            yield directory

    def _fetch(self, manifest: ModelManifest, source: Source, directory: Path) -> None:
        draft = self.root / f"{DRAFT}{manifest.digest}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        try:
            for file in manifest.files:
                target = draft / _relative(file.path)
                target.parent.mkdir(parents=True, exist_ok=True)
                _download(file, source.file(manifest.digest, file.path), target)
            if not (draft / "config.json").exists():
                (draft / "config.json").write_text(json.dumps(manifest.config, indent=2))
            draft.rename(directory)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def _make_room(self, needed: int) -> None:
        for draft in self.root.glob(f"{DRAFT}*"):
            self._evict(draft, draft.name.removeprefix(DRAFT))
        kept = [(path.stat().st_mtime, path) for path in self.root.iterdir() if not path.name.startswith(".")]
        models = [path for _, path in sorted(kept) if path.is_dir()]
        sizes = {path: _size(path) for path in models}
        total = sum(sizes.values())
        for path in models:
            if total + needed <= self.max_bytes:
                return
            if self._evict(path, path.name):
                total -= sizes[path]

    def _evict(self, path: Path, digest: str) -> bool:
        """Remove a model, or what a killed process had fetched of it, unless a process holds it."""
        with (self.root / f"{digest}.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            shutil.rmtree(path)
            return True


def _download(file: ModelFile, chunks: Iterable[bytes], target: Path) -> None:
    digest, size = hashlib.sha256(), 0
    with target.open("wb") as output:
        for chunk in chunks:
            size += len(chunk)
            if size > file.size:
                break
            digest.update(chunk)
            output.write(chunk)
    if size != file.size or digest.hexdigest() != file.sha256:
        raise BadModel(f"{file.path}: what arrived is not the file of {file.size} bytes that the manifest names")


def _plain(digest: str) -> str:
    if not digest or not digest.isalnum():
        raise BadModel(f"{digest!r} is not a model's digest")
    return digest


def _relative(path: str) -> PurePosixPath:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise BadModel(f"{path}: a model's file lies inside the model's directory")
    return pure


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
