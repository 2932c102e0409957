"""Models on the worker's disk, by content digest: hashed before each use, least recently used first to go."""

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol

from kernels.model_files.digests import hash_of
from workers.documents.model import ModelFile, ModelManifest
from workers.documents.recording import Recording
from workers.shared.scratch import scratch

DRAFT = ".draft-"
LONGEST_NAME = 255
"""Bytes of a file's or a folder's name. Models stored by older versions may have longer ones."""
HASHERS = 8


class Source(Protocol):
    def file(self, path: str) -> Iterable[bytes]: ...


class BadModel(Exception):
    """A fetched file is not what the manifest says; the message is a sentence."""


class ModelCache:
    """Directories `<root>/<content digest>` of at most `max_bytes` in all, shared by the workers of one machine."""

    def __init__(self, root: Path, max_bytes: int) -> None:
        self.root = root
        self.max_bytes = max_bytes
        root.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextlib.contextmanager
    def model(self, manifest: ModelManifest, source: Source) -> Iterator[Path]:
        """The model's directory with exactly the manifest's files, kept in place while the context lasts.

        What is there is hashed first, and fetched again when it differs. Raises BadModel when a fetched file differs
        from the manifest; whatever `source` raises passes through.
        """
        if not manifest.content_digest.isalnum():
            raise BadModel(f"{manifest.content_digest!r} is not a content digest")
        directory = self.root / manifest.content_digest
        with (self.root / f"{directory.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            while not _is_whole(directory, manifest.files):
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not _is_whole(directory, manifest.files):
                    self._make_room(sum(file.size for file in manifest.files))
                    self._fetch(manifest, source, directory)
                fcntl.flock(lock, fcntl.LOCK_SH)  # gives the lock up for a moment, so look again
            os.utime(directory)
            yield directory

    def _fetch(self, manifest: ModelManifest, source: Source, directory: Path) -> None:
        draft = self.root / f"{DRAFT}{directory.name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        try:
            for file in manifest.files:
                target = draft / _relative(file.path)
                target.parent.mkdir(parents=True, exist_ok=True)
                download(file, source.file(file.path), target)
            _remove(directory)
            draft.rename(directory)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def _make_room(self, needed: int) -> None:
        for draft in self.root.glob(f"{DRAFT}*"):
            self._evict(draft, draft.name.removeprefix(DRAFT))
        kept = [(path.stat().st_mtime, path) for path in self.root.iterdir() if not path.name.startswith(".")]
        models = [path for _, path in sorted(kept) if path.is_dir()]
        sizes = {path: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in models}
        total = sum(sizes.values())
        for path in models:
            if total + needed <= self.max_bytes:
                return
            if self._evict(path, path.name):
                total -= sizes[path]

    def _evict(self, path: Path, digest: str) -> bool:
        """Remove a model, or the part that a killed process had fetched, unless a process holds it."""
        with (self.root / f"{digest}.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            shutil.rmtree(path)
            return True


def _is_whole(directory: Path, files: Sequence[ModelFile]) -> bool:
    """Whether the directory holds these plain files, with these contents, and nothing else."""
    if directory.is_symlink() or not directory.is_dir():
        return False
    present = {
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
    if present != {file.path for file in files}:
        return False
    with ThreadPoolExecutor(min(HASHERS, os.cpu_count() or 1)) as pool:
        return all(pool.map(lambda file: _is_same(directory / file.path, file), files))


def _is_same(path: Path, file: ModelFile) -> bool:
    plain = not path.is_symlink() and path.stat().st_size == file.size
    return plain and hash_of(path) == file.sha256


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def download(file: ModelFile, chunks: Iterable[bytes], target: Path) -> None:
    """Writes the chunks to the file `target`. Raises BadModel when they are not the file's content."""
    digest, size = hashlib.sha256(), 0
    with target.open("wb") as output:
        for chunk in chunks:
            size += len(chunk)
            if size > file.size:
                break
            digest.update(chunk)
            output.write(chunk)
    if size != file.size or digest.hexdigest() != file.sha256:
        raise BadModel(f"{file.path}: what arrived is not the file of {file.size} bytes that was announced")


def _relative(path: str) -> PurePosixPath:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise BadModel(f"{path}: a model's file lies inside the model's directory")
    if any(len(os.fsencode(part)) > LONGEST_NAME for part in pure.parts):
        raise BadModel(
            f"{path}: a name on the worker's disk has at most {LONGEST_NAME} bytes; rename it and upload again"
        )
    return pure


@contextmanager
def fetch_recording(
    recording: Recording | None, chunks: Callable[[], Iterable[bytes]], root: Path
) -> Iterator[Path | None]:
    """A folder below `root` that holds the recording under its SHA-256 alone; None where there is no recording.

    The stage's process may read it, but not write there. Raises BadModel when the chunks are not its content.
    """
    if recording is None:
        yield None
        return
    with scratch(root) as folder:
        file = ModelFile(path=recording.name, sha256=recording.sha256, size=recording.size)
        download(file, chunks(), folder / recording.sha256)
        yield folder
