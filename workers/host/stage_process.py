"""The process of a run's stages: started, confined, and started again without what ended it.

A run's stages go one after another in one process, which the worker ends with the run. A stage notes what it tries
(`workers/measuring/journal.py`). Where the process dies of that, the stage is started again within the same attempt in
a new one, and is told what to leave out.
"""

import logging
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from kernels.cuda.nvrtc import PREBUILT
from workers.config import WorkerConfig
from workers.confinement.bounds import Bounds, Protection, ResourceLimits
from workers.documents.broker import LONGEST_STAGE_SECONDS
from workers.documents.budget import OVERTIME, OVERTIME_SECONDS
from workers.documents.left_out import HUNG_FILE, NOTE_BYTES, NOTE_FILE, LeftOut
from workers.documents.measurement import Confinement
from workers.documents.stage_command import StageCommand, StageEnded
from workers.documents.stages import Progress, StageFailure, StageInput
from workers.host import child, compile_ahead, vllm_folder
from workers.host.child_environment import stage_environment
from workers.host.reporter import Reporter
from workers.host.stage_files import Folders, code_folder, make_device_files, readable, stage_modules, user_of
from workers.host.stage_output import open_plain, read_end, remove
from workers.host.template_process import Template
from workers.host.threads import inheriting

log = logging.getLogger(__name__)

GRACE_SECONDS = 15
"""So long after it was stopped a stage is killed."""
LOG_TAIL = 8000
LOG_FILE = "stage.log"
HARNESS = "workers.harness.run_process"
END_LINE = '{"ended":'
"""How the line begins that says that the stage has ended; the others are its progress."""
MAX_LEFT_OUT = 5
"""A stage that dies once more ends the run: then the GPU or its driver is the likelier cause."""


class StageEnd(NamedTuple):
    """How a stage ended and what confined it; `failure` where its processes were ended too often. `starts_and_loads`:
    seconds, without those of a process that ended within the stage.
    """

    status: child.ExitStatus
    confinement: Confinement
    starts_and_loads: float = 0.0
    failure: StageFailure | None = None


class RunProcess:
    """The confined process of one run's stages. Where it has ended, the next stage gets a new one."""

    def __init__(
        self, config: WorkerConfig, folders: Folders, outer: Mapping[str, str], template: Template | None = None
    ) -> None:
        """`outer`: the worker's environment, with the GPUs that the stages see."""
        make_device_files()
        self._config, self._folders, self._outer, self._template = config, folders, outer, template
        self._modules = stage_modules(config.stage_package)
        self._child: child.Child | None = None
        self._bounds: Bounds | None = None
        self._asked_at: float | None = None
        self._env: dict[str, str] = {}

    def run(self, document: StageInput, reporter: Reporter) -> StageEnd:
        """Run the stage until it ends otherwise than by what it tries.

        It may be started again, in a new process; all of them share its time, and `seconds_left` of one that starts
        when it is over is negative. What it leaves is in the folder of its name. Raises child.ConfinementRefused.
        """
        end = time.monotonic() + document.seconds_left
        while True:
            ended = self._run_once(document, end, reporter)
            crashed = _crashed_attempt(self._folders.scratch, document.stage, ended.status)
            if crashed is None:
                return ended
            left_out = [*document.left_out, crashed]
            sentence = f"{crashed.label}: {crashed.sentence}"
            reporter.line(Progress(fraction=0, message=sentence).model_dump_json())
            if len(left_out) > MAX_LEFT_OUT:
                names = "; ".join(f"{item.label} ({item.reason})" for item in left_out)
                message = (
                    f"The {document.stage} stage's process was ended {len(left_out)} times by what it tried: {names}."
                )
                return ended._replace(failure=StageFailure(sentence=message))
            document = document.model_copy(update={"left_out": left_out, "seconds_left": end - time.monotonic()})

    def close(self) -> None:
        if self._child is not None:
            self._child.close()

    def _run_once(self, document: StageInput, end: float, reporter: Reporter) -> StageEnd:
        ends: list[StageEnded] = []

        def on_line(line: str) -> None:
            if line.startswith(END_LINE):
                ends.append(StageEnded.model_validate_json(line))
            else:
                reporter.line(line)

        process, scratch = self._ready(document), self._folders.scratch
        process.on_line = inheriting(on_line)
        confinement = _tell(process.protection, reporter)
        for name in ("out.json", "saved.json", NOTE_FILE, HUNG_FILE):  # those of the process before, if any
            remove(scratch, f"{document.stage}/{name}")
        command = StageCommand(
            module=f"{self._config.stage_package}.{document.stage}",
            document=document,
            folder=document.stage,
            model=str(self._folders.model),
            recordings=str(self._folders.recordings or "."),
            deadline=end,
            asked_at=self._asked_at,
        )
        self._asked_at = None
        process.send(command.model_dump_json())
        seconds = max(0.0, document.seconds_left) * OVERTIME + OVERTIME_SECONDS
        why = process.wait(seconds, GRACE_SECONDS, reporter.stop, lambda: bool(ends))
        if why == "exit" and [item.ended for item in ends] == [0]:
            return StageEnd(child.ExitStatus(0, "exit"), confinement, ends[0].starts_and_loads)
        code = process.close()
        status = child.ExitStatus(ends[0].ended if ends else code, why)
        tail = read_end(scratch, LOG_FILE, LOG_TAIL)
        log.warning("stage %s of run %s ended with %s; last output:\n%s", document.stage, document.run_id, status, tail)
        return StageEnd(status, confinement)

    def _ready(self, document: StageInput) -> child.Child:
        """A process that waits for a stage. The one that runs is taken if it may do what this stage must."""
        caches = self._config.cache / "compilers" / (document.organisation or "shared")
        package = self._config.stage_package.partition(".")[0]
        if not self._env:
            code = code_folder(self._folders.scratch, [package])
            self._env = stage_environment(self._outer, self._folders.scratch, caches, code)
            self._env |= {PREBUILT: compile_ahead.prebuilt(self._outer, self._config.cache)}
        closed = [self._config.data, self._config.cache]
        compiled = compile_ahead.folder_of(self._config.cache)
        compiled.mkdir(parents=True, exist_ok=True)
        bounds = Bounds(
            readable=(*readable(os.environ, [package], closed), *self._folders.read, str(compiled)),
            writable=(str(self._folders.scratch), str(caches)),
            user=user_of(document.organisation),
            required=self._config.require_sandbox,
            loopback=starts_vllm(document, self._outer),
        )
        if self._child is None or not self._child.alive or bounds != self._bounds:
            self.close()
            scratch, self._asked_at = self._folders.scratch, time.monotonic()
            self._child = child.Child(
                child.ChildCommand(HARNESS, self._modules, self._env, cwd=scratch, log_file=scratch / LOG_FILE),
                ResourceLimits(
                    cpu_seconds=LONGEST_STAGE_SECONDS * (os.cpu_count() or 1),
                    memory_bytes=self._config.stage_memory_bytes,
                    mapped_bytes=sum(file.size for file in document.model.files)
                    + (document.model.weight_bytes if document.model.quantised else 0),
                ),
                bounds,
                on_line=lambda line: None,
                template=self._template,
            )
            self._bounds = bounds
        return self._child


def _crashed_attempt(directory: Path, stage: str, status: child.ExitStatus) -> LeftOut | None:
    """What the stage was trying when its process died of it; None when it ended otherwise."""
    if not status.code or status.why != "exit":
        return None
    try:
        with open_plain(directory, f"{stage}/{NOTE_FILE}") as file:
            noted = file.read(NOTE_BYTES).partition(b"\0")[0]
        crashed = LeftOut.model_validate_json(noted) if noted else None
    except (OSError, ValidationError):
        return None
    if crashed is None or crashed.reason:
        return crashed
    hung = read_end(directory, f"{stage}/{HUNG_FILE}", LOG_TAIL)
    if hung:
        log.warning("stage timed out in:\n%s", hung)
    reason = f"it did not end within {crashed.seconds:.0f} s" if hung else death(status.code)
    return crashed.model_copy(update={"reason": reason})


def starts_vllm(document: StageInput, outer: Mapping[str, str]) -> bool:
    """Whether the stage starts vLLM's server, whose processes connect to each other."""
    named = document.stage == "load" and document.workload.baseline_runner == "vllm"
    return named and bool(vllm_folder.variables(outer))


def _tell(protection: Protection, reporter: Reporter) -> Confinement:
    """Say on the run's page what does not confine the stage."""
    if protection.missing:
        sentence = f"The stage is not fully confined on this worker. {' '.join(protection.missing)}"
        reporter.line(Progress(fraction=0, message=sentence).model_dump_json())
    return Confinement(held=protection.held, missing=protection.missing)


def death(code: int) -> str:
    """How a process with this code, negative for a signal, ended, as the end of a sentence."""
    if code >= 0:
        return f"its process ended with exit code {code} and no result"
    memory = ", as happens when memory runs out" if -code == signal.SIGKILL else ""
    return f"its process was killed by {signal.Signals(-code).name}{memory}"
