"""The recording of a run's traffic on the worker's disk, for as long as the worker has the run."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.documents.model import ModelFile
from workers.documents.recording import Recording
from workers.host.model_cache import download
from workers.shared.scratch import scratch


@contextmanager
def fetched(recording: Recording | None, chunks: Callable[[], Iterable[bytes]], root: Path) -> Iterator[Path | None]:
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
