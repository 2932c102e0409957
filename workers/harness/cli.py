"""One command line for every stage: `python -m workers.stages.<stage> in.json out.json --model DIR`.

Progress goes to standard output as JSON lines; whatever a library prints goes to standard error. The output document
is the stage's result (exit code 0) or a StageFailure (exit code 1). Saved artifacts lie in `<artifacts>/saved/` and are
listed in `<artifacts>/saved.json`.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

from pydantic import BaseModel, ValidationError

from workers.documents.stages import StageFailure, StageInput
from workers.harness.context import Context, GpuLost, StageError
from workers.harness.plain_model import on_plain_model
from workers.wording.errors import error_sentence
from workers.wording.stages import out_of_time

StageFunction = Callable[[StageInput, Context], BaseModel]


class OutOfTime(BaseException):
    """Raised in the stage by SIGTERM; not an Exception, so that a stage that tries variants does not swallow it."""


def main(run: StageFunction) -> NoReturn:
    """Run one stage from the command line and exit."""
    started = process_age()
    parser = _parser()
    arguments = parser.parse_args()
    if not (folder := arguments.output.resolve().parent).is_dir():
        parser.error(f"output: there is no directory {folder}")
    progress_out = take_stdout()
    with ExitStack() as stack:
        try:
            document = StageInput.model_validate_json(arguments.input.read_bytes())
            artifacts = arguments.artifacts or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stage-")))
            model_dir = arguments.model or _write_config(document, artifacts / "model")
            seconds_left = document.seconds_left - (started or 0.0)
            listener = partial(tell, progress_out)
            context = Context(model_dir, artifacts, listener, seconds_left, started, arguments.recordings)
            code = perform(on_plain_model(run, artifacts / "plain-model"), document, context, arguments.output)
        except (OSError, ValidationError) as error:
            failure, code = StageFailure(sentence=f"{arguments.input}: {error_sentence(error)}"), 1
            _write(arguments.output, failure)
    leave(code)


def perform(run: StageFunction, document: StageInput, context: Context, path: Path) -> int:
    """Run the stage until SIGTERM; write its output to `path` and the list of what it saved; its exit code."""
    before = signal.signal(signal.SIGTERM, _out_of_time)
    try:
        output, code = _attempt(run, document, context)
        (context.artifacts / "saved.json").write_text(json.dumps([artifact.model_dump() for artifact in context.saved]))
    finally:
        signal.signal(signal.SIGTERM, before)
    _write(path, output)
    if code:
        print(output.model_dump_json(indent=2), file=sys.stderr)
    return code


def leave(code: int) -> NoReturn:
    """End the process without waiting for what a stage has left running."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def process_age() -> float | None:
    """Seconds since this process began, its imports included; None where the system does not tell."""
    try:
        ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return None


def _attempt(run: StageFunction, document: StageInput, context: Context) -> tuple[BaseModel, int]:
    try:
        return run(document, context), 0
    except StageError as error:
        return error.failure, 1
    except OutOfTime:
        return StageFailure(sentence=out_of_time(document)), 1
    except GpuLost as error:
        traceback.print_exc()
        return StageFailure(sentence=f"The {document.stage} stage ended with {error}."), 1
    except Exception as error:
        traceback.print_exc()
        return StageFailure(sentence=f"The {document.stage} stage failed: {error_sentence(error)}"), 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run one stage of the pipeline.")
    parser.add_argument("input", type=Path, help="the StageInput document")
    parser.add_argument("output", type=Path, help="where the result document goes")
    parser.add_argument("--model", type=Path, help="directory with the model's files; default: its config.json alone")
    parser.add_argument("--recordings", type=Path, default=Path(), help="directory with the traffic's recording")
    parser.add_argument("--artifacts", type=Path, help="scratch directory; default: a temporary one")
    return parser


def take_stdout() -> TextIO:
    """Reserve standard output for progress. What libraries print, C++ included, goes to standard error."""
    progress_out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    return progress_out


def tell(progress_out: TextIO, message: BaseModel) -> None:
    """Write the document as a line for the worker."""
    print(message.model_dump_json(), file=progress_out, flush=True)


def _write_config(document: StageInput, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(document.model.config))
    return directory


def _write(path: Path, output: BaseModel) -> None:
    """Write the file atomically."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(output.model_dump_json())
    partial.replace(path)


def _out_of_time(signum: int, frame: FrameType | None) -> NoReturn:
    raise OutOfTime
