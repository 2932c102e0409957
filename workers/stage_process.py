"""A stage's process: started, confined, and started again without what ended it.

A stage notes what it tries (`workers/measuring/journal.py`). Where its process dies of that, the stage is started
again within the same attempt, and is told what to leave out.
"""

import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from workers import child, vllm_folder
from workers.child_environment import stage_environment
from workers.config import WorkerConfig
from workers.documents.left_out import HUNG_FILE, NOTE_BYTES, NOTE_FILE, LeftOut
from workers.documents.measurement import Confinement
from workers.documents.stages import Progress, StageFailure, StageInput
from workers.reporter import Reporter
from workers.stage_files import Folders, code_folder, make_device_files, readable, user_of
from workers.stage_output import open_plain, read_end

log = logging.getLogger(__name__)

OVERTIME = 3.0
OVERTIME_SECONDS = 240
"""A stage paces itself by `seconds_left`. A process of it that does not end is stopped at OVERTIME times that, 0 or
more, plus OVERTIME_SECONDS."""
LOG_TAIL = 8000
MOST_LEFT_OUT = 5
"""A stage that dies once more ends the run: then the GPU or its driver is the likelier cause."""


def run(
    config: WorkerConfig, document: StageInput, folders: Folders, reporter: Reporter, outer: Mapping[str, str]
) -> tuple[child.Ended, Confinement]:
    """Run the stage until it ends otherwise than by what it tries; how it ended, and what confined it.

    All its processes share its time; `seconds_left` of one that starts when it is over is negative. Raises
    child.Unconfined.
    """
    make_device_files()
    package = config.stage_package.partition(".")[0]
    caches = config.cache / "compilers" / (document.organisation or "shared")
    env = stage_environment(outer, folders.scratch, caches, code_folder(folders.scratch, [package]))
    bounds = child.Bounds(
        readable=(*readable(os.environ, [package], [config.data, config.cache]), *folders.read),
        writable=(str(folders.scratch), str(caches)),
        user=user_of(document.organisation),
        required=config.require_sandbox,
        loopback=starts_vllm(document, outer),
    )
    end = time.monotonic() + document.seconds_left
    while True:
        ended, confinement = _run_once(config, document, folders, reporter, env, bounds)
        culprit = _culprit(folders.scratch, ended)
        if culprit is None:
            return ended, confinement
        left_out = [*document.left_out, culprit]
        sentence = f"{culprit.label}: {culprit.sentence}"
        reporter.line(Progress(fraction=0, message=sentence).model_dump_json())
        if len(left_out) > MOST_LEFT_OUT:
            names = "; ".join(f"{each.label} ({each.reason})" for each in left_out)
            failure = f"The {document.stage} stage's process was ended {len(left_out)} times by what it tried: {names}."
            _write_new(folders.scratch / "out.json", StageFailure(sentence=failure).model_dump_json())
            return ended, confinement
        document = document.model_copy(update={"left_out": left_out, "seconds_left": end - time.monotonic()})


def _run_once(
    config: WorkerConfig,
    document: StageInput,
    folders: Folders,
    reporter: Reporter,
    env: Mapping[str, str],
    bounds: child.Bounds,
) -> tuple[child.Ended, Confinement]:
    directory = folders.scratch
    for name in ("out.json", "stage.log", NOTE_FILE, HUNG_FILE):  # those of the process before, if any
        (directory / name).unlink(missing_ok=True)
    _write_new(directory / "in.json", document.model_dump_json())
    seconds = max(0.0, document.seconds_left) * OVERTIME + OVERTIME_SECONDS
    found: list[Confinement] = []
    arguments = [sys.executable, "-m", f"{config.stage_package}.{document.stage}", "in.json", "out.json"]
    arguments += ["--model", str(folders.model), "--artifacts", str(directory)]
    arguments += ["--recordings", str(folders.recordings)] if folders.recordings else []
    ended = child.run(
        child.ChildCommand(arguments, env, cwd=directory, log_file=directory / "stage.log"),
        limits=child.ResourceLimits(
            seconds=seconds,
            cpu_seconds=int(seconds * (os.cpu_count() or 1)),
            memory_bytes=config.stage_memory_bytes,
            mapped_bytes=sum(file.size for file in document.model.files),
        ),
        bounds=bounds,
        on_line=reporter.line,
        on_start=lambda protection: found.append(_tell(protection, reporter)),
        stop=reporter.stop,
    )
    if ended.code:
        said = read_end(directory, "stage.log", LOG_TAIL)
        log.warning("stage %s of run %s ended with %s; it said:\n%s", document.stage, document.run_id, ended, said)
    return ended, found[0]


def _write_new(path: Path, text: str) -> None:
    """Writes a file where the stage's code, which no longer runs, may have left a link."""
    path.unlink(missing_ok=True)
    with path.open("x") as file:
        file.write(text)


def _culprit(directory: Path, ended: child.Ended) -> LeftOut | None:
    """What the stage was trying when its process died of it; None when it ended otherwise."""
    if not ended.code or ended.why != "exit":
        return None
    try:
        with open_plain(directory, NOTE_FILE) as file:
            noted = file.read(NOTE_BYTES).partition(b"\0")[0]
        tried = LeftOut.model_validate_json(noted) if noted else None
    except (OSError, ValidationError):
        return None
    if tried is None or tried.reason:
        return tried
    hung = read_end(directory, HUNG_FILE, LOG_TAIL)
    if hung:
        log.warning("what the stage tried took too long:\n%s", hung)
    reason = f"it did not end within {tried.seconds:.0f} s" if hung else death(ended.code)
    return tried.model_copy(update={"reason": reason})


def starts_vllm(document: StageInput, outer: Mapping[str, str]) -> bool:
    """Whether the stage starts vLLM's server, whose processes connect to each other."""
    named = document.stage == "load" and document.workload.baseline_runner == "vllm"
    return named and bool(vllm_folder.variables(outer))


def _tell(protection: child.Protection, reporter: Reporter) -> Confinement:
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
