"""Runs a command in a confined process of its own session that never outlives its parent.

The parent starts the guard (`confinement/guard.py`), which starts the command confined and ends as the command ends.
When the parent dies, the kernel tells the guard, which kills all that came of the command; when the guard dies, the
kernel kills the command.
"""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal

from workers.confinement.bounds import Bounds, Protection, ResourceLimits
from workers.confinement.guard import KILL_SECONDS
from workers.threads import inheriting

log = logging.getLogger(__name__)

POLL_SECONDS = 0.1
START = "import sys; sys.path.insert(0, {root!r}); from workers.confinement.guard import main; main()"
GUARD = (sys.executable, "-I", "-S", "-c", START.format(root=str(Path(__file__).resolve().parents[1])))


@dataclass(frozen=True)
class Ended:
    """How the command ended: by itself, stopped on request, or out of time. Negative codes are signals."""

    code: int
    why: Literal["exit", "stopped", "timeout"]


class Unconfined(Exception):
    """The system refuses a protection that is required, so the command was not run; the message is a sentence."""


@dataclass(frozen=True)
class ChildCommand:
    """A command with its whole environment, its working directory, and the file that takes its standard error."""

    arguments: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    log_file: Path


def run(
    command: ChildCommand,
    *,
    limits: ResourceLimits,
    bounds: Bounds,
    on_line: Callable[[str], None],
    on_start: Callable[[Protection], None],
    stop: threading.Event,
) -> Ended:
    """Run `command`, pass each line of its standard output to `on_line` (on a thread of its own), and wait.

    `on_start` is told how far the command is confined. Setting `stop` kills the command with all that it started. Call
    it from the thread that lives longest: the command dies with the thread that started it. Raises Unconfined.
    """
    told, tell = os.pipe()
    settings = [json.dumps(asdict(limits)), json.dumps(asdict(bounds)), str(os.getpid()), str(tell)]
    with command.log_file.open("wb") as errors, os.fdopen(told) as report:
        try:
            process = subprocess.Popen(
                [*GUARD, *settings, *command.arguments],
                env=dict(command.env),
                cwd=command.cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                pass_fds=[tell],
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        finally:
            os.close(tell)
        assert process.stdout is not None
        reader = threading.Thread(target=inheriting(_read), args=(process.stdout, on_line), daemon=True)
        reader.start()
        try:
            protection = _protection(report)
            on_start(protection)
            why = _wait(process.pid, limits, stop)
        finally:
            _end(process)
            code = process.wait()
            reader.join(timeout=5)
    if protection.missing and bounds.required:
        raise Unconfined(f"it cannot be confined as required: {' '.join(protection.missing)}")
    return Ended(code, why)


def _protection(report: IO[str]) -> Protection:
    """What the guard reports before the command begins; a guard that died reports nothing."""
    try:
        return Protection.from_json(report.read())
    except ValueError:
        return Protection(missing=["How far it is confined is not known: its process ended too early."])


def _wait(pid: int, limits: ResourceLimits, stop: threading.Event) -> Literal["exit", "stopped", "timeout"]:
    soft = time.monotonic() + limits.seconds
    hard = soft + limits.grace_seconds
    told = False
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        now = time.monotonic()
        if stop.wait(POLL_SECONDS):
            return "stopped"
        if now > hard:
            return "timeout"
        if now > soft and not told:
            told = True
            os.kill(pid, signal.SIGTERM)
    return "timeout" if told else "exit"


def _end(process: "subprocess.Popen[str]") -> None:
    """Have the guard kill whatever is left, then kill its session; it is not reaped yet, so the number is its own."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGUSR1)
    deadline = time.monotonic() + KILL_SECONDS + 1
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _read(lines: IO[str], on_line: Callable[[str], None]) -> None:
    for line in lines:
        try:
            on_line(line)
        except Exception:
            log.exception("a line of the stage could not be passed on")
