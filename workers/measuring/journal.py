"""What a stage is trying and what it has finished, in files of its own folder that outlive its process.

When the process dies, the worker reads what was being tried and starts the stage again without it
(`workers/host/stage_process.py`). What was finished before is read back, so it is not done again.
"""

import faulthandler
import hashlib
import mmap
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from pydantic import TypeAdapter

from workers.documents.left_out import HUNG_FILE, NOTE_BYTES, NOTE_FILE, LeftOut
from workers.documents.stages import StageInput
from workers.harness.context import Context, GpuLost
from workers.measuring.overruns import overrun_seconds, requests_seconds
from workers.wording.errors import error_sentence

SHARE = 0.5
"""What is tried may take this share of the time that is left; then its process is ended."""
MIN_SECONDS, LONGEST_SECONDS = 30.0, 120.0
"""The least that a variant or a part of a plan may take, and the most that a variant may."""
MAX_SECONDS = 1e6
"""What may take longer has no limit."""


class Journal:
    """The notes of one stage.

    A note costs microseconds, so each timed call may have one. It also asks the GPUs whether they still work: an error
    such as an illegal address ends a process's CUDA context, and then every later call fails as well.
    """

    def __init__(self, document: StageInput, context: Context) -> None:
        self.left_out = document.left_out
        self._context = context
        self._overrun, self._requests = overrun_seconds(document), requests_seconds(document)
        self._gpus = document.gpus
        self._folder = context.artifacts / "finished"
        if not document.left_out:  # the folder may be an earlier run's, where a stage is run by hand
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(exist_ok=True)
        path = context.artifacts / NOTE_FILE
        path.write_bytes(bytes(NOTE_BYTES))
        with path.open("r+b") as file:
            self._note = mmap.mmap(file.fileno(), NOTE_BYTES)
        self._hung = (context.artifacts / HUNG_FILE).open("w")
        self._tried: LeftOut | None = None
        self._deadline = 0.0

    def why_left_out(self, key: str) -> str:
        """Why this is not to be tried, in a sentence; "" where it is."""
        return next((left_out.sentence for left_out in self.left_out if left_out.key == key), "")

    @property
    def most_seconds(self) -> float:
        """The stage's seconds with the overrun; 0 where too few are left to try anything more."""
        seconds_left = self._with_overrun
        return seconds_left if seconds_left >= min(MIN_SECONDS, self._overrun) else 0.0

    @property
    def variant_seconds(self) -> float:
        """The longest that one variant may take, or one pass with it."""
        return max(MIN_SECONDS, min(LONGEST_SECONDS, SHARE * self._context.seconds_left))

    def plan_seconds(self, building: float = 0.0) -> float:
        """The longest that one part of a plan's trial may take; `building` are the seconds of its build at worst."""
        share = max(MIN_SECONDS, SHARE * self._context.seconds_left)
        return min(share + building + self._requests, self._with_overrun)

    @property
    def _with_overrun(self) -> float:
        """The stage's seconds and the overrun, which its processes share: what ended one has used some of it."""
        used = self._context.overtime if self.left_out else 0.0
        return self._context.seconds_left + self._overrun - used

    def note(self, key: str, label: str, seconds: float) -> None:
        """Says what is tried from now on. The process ends when that takes longer than `seconds`, one at least.

        It is called within `noted`. Raises GpuLost when what was tried before has ended the CUDA context.
        """
        self._ask()
        seconds = max(seconds, 1.0)
        self._write(LeftOut(key=key, label=label[:1000], seconds=round(min(seconds, MAX_SECONDS))))
        ends = time.monotonic() + seconds
        if abs(ends - self._deadline) > 1.0:  # each call starts a thread
            faulthandler.cancel_dump_traceback_later()
            self._deadline = ends
            if seconds < MAX_SECONDS:
                faulthandler.dump_traceback_later(seconds, file=self._hung, exit=True)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Notes count inside the block. Raises GpuLost when what was noted last has ended the CUDA context."""
        lost = False
        try:
            try:
                yield
            finally:
                self._ask()
        except GpuLost:
            lost = True
            raise
        finally:
            self._context.on_progress = None
            faulthandler.cancel_dump_traceback_later()
            self._deadline = 0.0
            if not lost:
                self._write(None)

    def note_parts(self, key: str, label: str, building: float) -> None:
        """Notes, within `noted`, a plan whose parts end where the stage reports progress; each has `plan_seconds`."""

        def note() -> None:
            self.note(key, label, self.plan_seconds(building))

        note()
        self._context.on_progress = note

    def once(self, key: str, kind: Any, make: Callable[[], Any]) -> Any:
        """What `make` returned for this key before the stage was started again, else what it returns now.

        `kind` is its type, a pydantic model or one of them in a list. Notes count within `make`.
        """
        path = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
        adapter = TypeAdapter(kind)
        if path.exists():
            return adapter.validate_json(path.read_bytes())
        with self.noted():
            entry = make()
        partial = path.with_suffix(".partial")
        partial.write_bytes(adapter.dump_json(entry))
        partial.replace(path)
        return entry

    def _ask(self) -> None:
        """Raises GpuLost when a GPU's context no longer works."""
        if not torch.cuda.is_initialized():
            return
        try:
            for gpu in range(self._gpus):
                torch.cuda.synchronize(gpu)
        except Exception as error:
            reason = f"the GPU no longer answered: {error_sentence(error)}"
            if self._tried is None:
                raise GpuLost(reason) from error
            self._write(self._tried.model_copy(update={"reason": reason}))
            raise GpuLost(f"{self._tried.label}, after which {reason}") from error

    def _write(self, note: LeftOut | None) -> None:
        self._tried = note
        content = (note.model_dump_json().encode() if note else b"") + b"\0"
        self._note[: len(content)] = content
