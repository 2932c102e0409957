"""The process of a run's stages: `python -m workers.harness.run_process MODULE…`, to which the worker writes a line per
stage. The modules are those that stages need.

Its standard input brings a StageCommand a line. The stage's document, its saved artifacts and their list go into its
folder; its progress goes to standard output, and then StageEnded. Stages share what they load (`Context.shared`).
"""

import gc
import importlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import IO, Any, TextIO

from workers.documents.stage_command import StageCommand, StageEnded
from workers.harness import fresh_processes
from workers.harness.cli import leave, perform, take_stdout, tell
from workers.harness.context import Context
from workers.harness.plain_model import on_plain_model


def main() -> None:
    """Run stages until there is no further command, or one has failed: what it left of this process is not known."""
    commands, progress_out, shared = _take_stdin(), take_stdout(), dict[str, Any]()
    for name in sys.argv[1:]:
        importlib.import_module(name)
    fresh_processes.prepare()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in commands:
        ended = _run(StageCommand.model_validate_json(line), progress_out, shared)
        tell(progress_out, ended)
        if ended.ended:
            break
        _clear()
    leave(0)


def _run(command: StageCommand, progress_out: TextIO, shared: dict[str, Any]) -> StageEnded:
    folder = Path(command.folder)
    if not command.document.left_out:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    context = Context(
        Path(command.model),
        folder.absolute(),
        lambda progress: tell(progress_out, progress),
        command.deadline - time.monotonic(),
        fresh_processes.START_SECONDS,
        recordings=Path(command.recordings),
        shared=shared,
    )
    if command.asked_at is not None:
        context.starts_and_loads = time.monotonic() - command.asked_at
    run = on_plain_model(importlib.import_module(command.module).run, folder.absolute().parent / "plain-model")
    code = perform(run, command.document, context, folder / "out.json")
    return StageEnded(ended=code, starts_and_loads=context.starts_and_loads)


def _clear() -> None:
    """Leave to the next stage what a new process would have: no compiled code, and the GPU's free memory."""
    gc.collect()
    if dynamo := sys.modules.get("torch._dynamo"):
        dynamo.reset()
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _take_stdin() -> IO[str]:
    """Reserve standard input for commands; what a stage starts reads nothing."""
    commands = os.fdopen(os.dup(0), encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return commands


if __name__ == "__main__":
    main()
