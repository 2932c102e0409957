"""What a stage gets beside its document: the model's files, a scratch directory, and progress reports."""

import hashlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from workers.documents.base import Artifact
from workers.documents.stages import Progress, StageFailure

Listener = Callable[[Progress], None]


class StageError(Exception):
    """A stage gives up, with one sentence for people; `refused` when the customer's input is the cause."""

    def __init__(self, sentence: str, refused: bool = False, file: str = "", field: str = "") -> None:
        super().__init__(sentence)
        self.failure = StageFailure(sentence=sentence, refused=refused, file=file, field=field)


class GpuLost(BaseException):
    """What the stage tried has ended its CUDA context, so the process can do no more; the message says what it was.

    It is not an Exception, so that a stage that tries variants does not take it for the error of one call.
    """


class Context:
    """The surroundings of one stage.

    `model_dir` holds the model's files (config.json at least), `artifacts` is a scratch directory that lasts as long
    as the stage. `listener` receives every Progress; it may be called from any thread, one call at a time.
    `seconds` is the stage's time that is left, below 0 where its earlier processes took more.
    `startup_seconds` is how long a fresh process takes to start and to import; None where the stage may start none.
    `recordings` is where the recording of the workload's traffic lies, under the name that the traffic gives it.
    `on_progress`, if set, is called after each line of progress. `shared` is what the stages of one process share.
    `starts_and_loads`: seconds that starts of processes and loads of weights took. Of processes that get ready beside
    other work it has only what the stage then waits for them, warm-up included.
    """

    def __init__(
        self,
        model_dir: Path,
        artifacts: Path,
        listener: Listener | None = None,
        seconds: float = float("inf"),
        startup_seconds: float | None = None,
        recordings: Path = Path(),
        shared: dict[str, Any] | None = None,
    ) -> None:
        self.model_dir = model_dir
        self.artifacts = artifacts
        self.startup_seconds = startup_seconds
        self.recordings = recordings
        self.shared = {} if shared is None else shared
        self.saved: list[Artifact] = []
        self.starts_and_loads = 0.0
        self.on_progress: Callable[[], None] | None = None
        self._listener = listener
        self._lock = Lock()
        self._deadline = time.monotonic() + seconds

    @property
    def saved_dir(self) -> Path:
        """Where saved artifacts lie, each under its SHA-256."""
        return self.artifacts / "saved"

    @property
    def seconds_left(self) -> float:
        """Seconds of the stage's time that are left, counted from its start; never negative."""
        return max(0.0, self._deadline - time.monotonic())

    @property
    def overtime(self) -> float:
        """Seconds that have passed since the stage's time was over; 0 before."""
        return max(0.0, time.monotonic() - self._deadline)

    def save_artifact(self, path: Path, name: str, media_type: str = "application/octet-stream") -> Artifact:
        """Save a copy of the file at `path` by its content hash; put the returned Artifact into the result."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self.saved_dir.mkdir(parents=True, exist_ok=True)
        copy = self.saved_dir / digest
        if not copy.exists():
            shutil.copyfile(path, copy)
        artifact = Artifact(name=name, sha256=digest, size=copy.stat().st_size, media_type=media_type)
        with self._lock:
            self.saved.append(artifact)
        return artifact

    def report_progress(self, fraction: float, message: str, partial: dict[str, Any] | None = None) -> None:
        """Report progress: `fraction` of the stage's work from 0 to 1, one line, and what is already known."""
        progress = Progress(fraction=min(1.0, max(0.0, fraction)), message=message, partial=partial)
        if self._listener is not None:
            with self._lock:
                self._listener(progress)
        if self.on_progress is not None:
            self.on_progress()
