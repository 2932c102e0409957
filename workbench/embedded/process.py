"""A child process that ends with its parent and writes its output to a log file."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from workers.shared.lifeline import die_with_parent


class EmbeddedError(Exception):
    """Why the workbench cannot be started here, as one sentence."""


@dataclass
class Service:
    """One long-running process.

    It gets a session of its own, so that Ctrl-C reaches only the launcher, which then stops everything in order.
    `stop_with` ends it in an orderly way; `orphan_signal` is sent by the kernel when the launcher dies.
    """

    name: str
    command: Sequence[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    pass_fds: Sequence[int] = ()
    stop_with: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGTERM
    process: subprocess.Popen[bytes] | None = None
    _terminated: bool = False

    def start(self) -> None:
        """Start it, appending to its log. Raises EmbeddedError when its program cannot be run."""
        self._terminated = False
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            try:
                self.process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.PIPE if self.stdin else subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=dict(self.env),
                    pass_fds=self.pass_fds,
                    start_new_session=True,
                    preexec_fn=partial(die_with_parent, os.getpid(), self.orphan_signal),
                )
            except OSError as error:
                raise EmbeddedError(f"{self.name}: {self.command[0]} cannot be started: {error.strerror}") from error
        if self.process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(self.stdin)
                self.process.stdin.close()

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self.process.poll() if self.process else None

    def terminate(self) -> None:
        """Begins to end the process in an orderly way; `stop` waits for that."""
        if self.process is not None and self.process.poll() is None and not self._terminated:
            self.process.send_signal(self.stop_with)
        self._terminated = True

    def stop(self, grace_seconds: float = 10) -> None:
        """Ends the process and what is left of its session. Does nothing when it has ended."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def last_words(self) -> str:
        """The last lines of its log."""
        text = self.log.read_text("utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-12:])


def wait_until(ready: Callable[[], bool], services: Sequence[Service], seconds: float, awaited: str) -> None:
    """Poll `ready`. Raises EmbeddedError when time is up, or at once when one of the services ends."""
    deadline = time.monotonic() + seconds
    while not ready():
        for service in services:
            if service.exit_status is not None:
                raise EmbeddedError(
                    f"{service.name} ended with status {service.exit_status} while starting; "
                    f"the end of {service.log}:\n{service.last_words()}"
                )
        if time.monotonic() > deadline:
            logs = ", ".join(str(service.log) for service in services)
            raise EmbeddedError(f"{awaited} was not ready within {seconds:.0f} s; its log: {logs}")
        time.sleep(0.1)
