"""A fresh process that measures one task: what starts it, and what it runs.

The verify stage starts it, so it runs in the stage's confinement and ends with it.
"""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

from pydantic import Field

from kernels.plan import Plan
from workers.documents.base import Document
from workers.documents.measurement import Environment
from workers.documents.stages import StageFailure, StageInput
from workers.harness.context import Context, StageError
from workers.harness.fresh_processes import FreshProcess
from workers.wording.errors import error_sentence


class Task(Document):
    """What the process is to measure, with prompts from `seed`. `document` is the verify stage's input. The process was
    `started_at`, by the machine's monotonic clock.
    """

    document: StageInput
    plan: Plan
    seed: int = Field(default_factory=partial(secrets.randbits, 32))
    started_at: float = Field(default_factory=time.monotonic)


class Measured(Document):
    """What the process measures, and the environment meanwhile. Its start and its loads of weights took
    `starts_and_loads` seconds; it was warm `ready_seconds` after it was started.

    `refusal` says why the plan's requests are not valid: their ids are not the model's, or they are faster than the
    chip allows; "" if they are valid.
    """

    environment: Environment
    starts_and_loads: float = 0.0
    ready_seconds: float = 0.0
    refusal: str = ""


AnyTask = TypeVar("AnyTask", bound=Task)
Kind = TypeVar("Kind", bound=Measured)


class MeasuringProcess(Generic[Kind]):
    """The process for a task, with files of this name. It starts at once, and runs the module of `kind`, its result."""

    def __init__(self, name: str, task: Task, kind: type[Kind], context: Context) -> None:
        request, self._result = (context.artifacts / f"{name}-{file}.json" for file in ("request", "result"))
        self._kind = kind
        self._result.unlink(missing_ok=True)
        request.write_text(task.model_dump_json())
        paths = request, self._result, context.model_dir, context.artifacts
        self.process = FreshProcess(kind.__module__, [str(path) for path in paths])

    def measure(self, seconds: float) -> Kind | str:
        """What it measures when it has its turn, or the end of a sentence on why there is nothing."""
        code = 0
        try:
            if code := self.process.run(seconds):
                return f"ended with code {code}: {StageFailure.model_validate_json(self._result.read_bytes()).sentence}"
            return self._kind.model_validate_json(self._result.read_bytes())
        except subprocess.TimeoutExpired:
            return f"did not end within {seconds:.0f} s"
        except (OSError, ValueError):  # one that is killed may write a part of it
            return f"ended with code {code}" if code else "left no result that can be read"


def run_task(kind: type[AnyTask], measure: Callable[[AnyTask, Context], Measured]) -> NoReturn:
    """Runs the command line's measurement, writes its result, or why there is none, and ends the process."""
    request, written, model_dir, artifacts = map(Path, sys.argv[1:])
    task = kind.model_validate_json(request.read_bytes())
    try:
        result = measure(task, Context(model_dir, artifacts))
    except Exception as error:
        sentence = str(error).rstrip(".") if isinstance(error, StageError) else error_sentence(error)
        written.write_text(StageFailure(sentence=sentence).model_dump_json())
        raise
    written.write_text(result.model_dump_json())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # compilers' pools of processes would hold it up
