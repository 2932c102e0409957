"""A confined process of its own session that never outlives its parent.

The parent starts the guard (`confinement/guard.py`), or has the template process fork it. The guard runs the command
confined and ends as the command ends. When the parent dies, the kernel tells the guard, which kills all that came of
the command; when the guard dies, the kernel kills the command.
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
from workers.host.template_process import Template
from workers.host.threads import inheriting

log = logging.getLogger(__name__)

POLL_SECONDS = 0.1
START = "import sys; sys.path.insert(0, {root!r}); from workers.confinement.guard import main; main()"
GUARD = (sys.executable, "-I", "-S", "-c", START.format(root=str(Path(__file__).resolve().parents[2])))
Why = Literal["exit", "stopped", "timeout"]


@dataclass(frozen=True)
class ExitStatus:
    """How the command ended: by itself, stopped on request, or out of time. Negative codes are signals."""

    code: int
    why: Why


class ConfinementRefused(Exception):
    """The system refuses a protection that is required, so the command was not run; the message is a sentence."""


@dataclass(frozen=True)
class ChildCommand:
    """A module run as by `python -m`, its whole environment and directory, and where its standard error goes."""

    module: str
    arguments: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    log_file: Path


class Child:
    """A command that runs, until `close` kills it with all that it started.

    Each line of its standard output goes to `on_line`, on a thread of its own. `protection` says how far it is
    confined. It dies with the thread that started it, so start it on the one that lives longest.
    """

    def __init__(
        self,
        command: ChildCommand,
        limits: ResourceLimits,
        bounds: Bounds,
        on_line: Callable[[str], None],
        template: Template | None = None,
    ) -> None:
        """Start the command, in a fork of the template where that is ready. Raises ConfinementRefused."""
        self.on_line = on_line
        self._code: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        command.log_file.unlink(missing_ok=True)  # a process before may have left a link there
        with command.log_file.open("xb") as errors, contextlib.ExitStack() as theirs:
            (stdin, give), (listen, stdout), (reported, tell) = os.pipe(), os.pipe(), os.pipe()
            for descriptor in (stdin, stdout, tell):
                theirs.callback(os.close, descriptor)
            self._input, report = os.fdopen(give, "wb", buffering=0), os.fdopen(reported)
            lines = os.fdopen(listen, encoding="utf-8", errors="replace")
            descriptors = (stdin, stdout, errors.fileno(), tell)
            forked = template.fork(_request(command, limits, bounds), descriptors) if template else None
            self.pid = forked or self._start(command, limits, bounds, descriptors)
        self._reader = threading.Thread(target=inheriting(self._read), args=(lines,), daemon=True)
        self._reader.start()
        with report:
            self.protection = _protection(report)
        if self.protection.missing and bounds.required:
            self.close()
            raise ConfinementRefused(f"it cannot be confined as required: {' '.join(self.protection.missing)}")

    @property
    def alive(self) -> bool:
        return self._code is None and not self._has_ended()

    def send(self, line: str) -> None:
        """Write the line to the command's standard input, without waiting until it is read."""
        threading.Thread(target=self._write, args=(line.encode() + b"\n",), daemon=True).start()

    def wait(self, seconds: float, grace_seconds: float, stop: threading.Event, done: Callable[[], bool]) -> Why:
        """Wait until the command ends or `done` is true.

        After the seconds it gets SIGTERM. "timeout" says that it got that, or that it has not ended within the grace
        either; "stopped" that `stop` was set.
        """
        soft = time.monotonic() + seconds
        hard, warned = soft + grace_seconds, False
        while not done() and not self._has_ended():
            now = time.monotonic()
            if stop.wait(POLL_SECONDS):
                return "stopped"
            if now > hard:
                return "timeout"
            if now > soft and not warned:
                warned = True
                os.kill(self.pid, signal.SIGTERM)
        return "timeout" if warned else "exit"

    def close(self) -> int:
        """Kill whatever is left, and return the command's exit code."""
        if self._code is None:
            self._kill()
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            if self._process is not None:
                self._process.returncode = self._code
            with contextlib.suppress(ChildProcessError):  # what is left of its session where the guard was killed
                while os.waitpid(-self.pid, 0):
                    pass
            self._reader.join(timeout=5)
            with contextlib.suppress(OSError):
                self._input.close()
        return self._code

    def _start(
        self, command: ChildCommand, limits: ResourceLimits, bounds: Bounds, descriptors: tuple[int, int, int, int]
    ) -> int:
        stdin, stdout, errors, tell = descriptors
        settings = [json.dumps(asdict(limits)), json.dumps(asdict(bounds)), str(os.getpid()), str(tell)]
        self._process = subprocess.Popen(
            [*GUARD, *settings, sys.executable, "-m", command.module, *command.arguments],
            env=dict(command.env),
            cwd=command.cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=errors,
            start_new_session=True,
            pass_fds=[tell],
        )
        return self._process.pid

    def _has_ended(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _kill(self) -> None:
        """Have the guard kill whatever is left, then kill its session; the number is its own until it is reaped."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        deadline = time.monotonic() + KILL_SECONDS + 1
        while not self._has_ended() and time.monotonic() < deadline:
            time.sleep(0.01)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _read(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                try:
                    self.on_line(line)
                except Exception:
                    log.exception("stage output not passed on")

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):  # it has ended
            while line:
                line = line[self._input.write(line) :]


def _request(command: ChildCommand, limits: ResourceLimits, bounds: Bounds) -> dict[str, object]:
    return {
        "module": command.module,
        "arguments": list(command.arguments),
        "env": dict(command.env),
        "cwd": str(command.cwd),
        "limits": asdict(limits),
        "bounds": asdict(bounds),
    }


def _protection(report: IO[str]) -> Protection:
    """What the guard reports before the command begins; a guard that died reports nothing."""
    try:
        return Protection.from_json(report.read())
    except ValueError:
        return Protection(missing=["How far it is confined is not known: its process ended too early."])
