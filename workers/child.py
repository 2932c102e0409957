"""Runs a command in a confined process of its own session that never outlives its parent.

The parent starts this file as a program, the guard. The guard confines itself (no network where the kernel allows it,
limits on CPU time, file size and open files), starts the command, and ends as the command ends. When the parent dies,
the kernel tells the guard, which kills its whole session; when the guard dies, the kernel kills the command. Address
space is never limited, since CUDA reserves far more than it uses.
"""

import contextlib
import ctypes
import functools
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal, NoReturn

log = logging.getLogger(__name__)

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.1
CONFINE = (sys.executable, "-I", "-S", __file__)


@dataclass(frozen=True)
class Limits:
    """`seconds` of wall time until SIGTERM, `grace_seconds` more until SIGKILL; the rest by setrlimit."""

    seconds: float
    grace_seconds: float = 15
    cpu_seconds: int = 3600
    file_bytes: int = 64 * 2**30
    open_files: int = 65_536


@dataclass(frozen=True)
class Ended:
    """How the command ended: by itself, stopped on request, or out of time. Negative codes are signals."""

    code: int
    why: Literal["exit", "stopped", "timeout"]


def run(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    log_file: Path,
    limits: Limits,
    on_line: Callable[[str], None],
    stop: threading.Event,
) -> Ended:
    """Run `command`, pass each line of its standard output to `on_line` (on a thread of its own), and wait.

    Standard error goes to `log_file`. Setting `stop` kills the command with all its descendants of the session. Call
    it from the thread that lives longest: the command dies with the thread that started it.
    """
    offline = _network_can_be_cut()
    confine = [*CONFINE, json.dumps(asdict(limits)), str(os.getpid()), str(int(offline))]
    with log_file.open("wb") as errors:
        process = subprocess.Popen(
            [*confine, *command],
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    assert process.stdout is not None
    reader = threading.Thread(target=_read, args=(process.stdout, on_line), daemon=True)
    reader.start()
    try:
        why = _wait(process.pid, limits, stop)
    finally:
        _kill_group(process.pid)
        code = process.wait()
        reader.join(timeout=5)
    return Ended(code, why)


def _wait(pid: int, limits: Limits, stop: threading.Event) -> Literal["exit", "stopped", "timeout"]:
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


def _kill_group(pid: int) -> None:
    """Kill the rest of the session. Its leader is not reaped yet, so its number cannot belong to another process."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(pid, signal.SIGKILL)


def _read(lines: IO[str], on_line: Callable[[str], None]) -> None:
    for line in lines:
        try:
            on_line(line)
        except Exception:
            log.exception("a line of the stage could not be passed on")


@functools.cache
def _network_can_be_cut() -> bool:
    """Whether this machine lets a process enter a network namespace of its own; tried once."""
    probe = subprocess.run([*CONFINE, "probe"], capture_output=True, text=True)
    if probe.returncode:
        log.warning("stages run with network access, this system does not let them leave it: %s", probe.stderr.strip())
    return probe.returncode == 0


def _leave_network() -> None:
    """Enter an empty network namespace. Raises OSError when neither root's way nor a user namespace's is allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) == 0:
        return
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _when_parent_dies(number: signal.Signals, parent: int) -> None:
    """Have the kernel send `number` when the parent dies. The parent may have died before this call."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number) != 0 or os.getppid() != parent:
        os._exit(1)


def _limit(kind: int, value: int, margin: int = 0) -> None:
    """Set a soft limit, and a hard one `margin` above it, as far as the present hard limit allows."""
    hard = resource.getrlimit(kind)[1]
    soft, ceiling = (v if hard == resource.RLIM_INFINITY else min(v, hard) for v in (value, value + margin))
    resource.setrlimit(kind, (soft, ceiling))


def _confine(limits: Limits, offline: bool) -> None:
    if offline:
        _leave_network()
    _limit(resource.RLIMIT_CPU, limits.cpu_seconds, margin=5)
    _limit(resource.RLIMIT_FSIZE, limits.file_bytes)
    _limit(resource.RLIMIT_NOFILE, limits.open_files)
    _limit(resource.RLIMIT_CORE, 0)


def _guard(parent: int, command: list[str]) -> NoReturn:
    """Start the command, pass SIGTERM on to it, and end with its exit code or by its signal."""
    guard = os.getpid()
    pid = os.fork()
    if pid == 0:
        _when_parent_dies(signal.SIGKILL, guard)
        with contextlib.suppress(OSError):  # when memory runs out, the stage goes before its worker
            Path("/proc/self/oom_score_adj").write_text("500")
        os.execvp(command[0], command)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    signal.signal(signal.SIGUSR1, lambda *_: os.killpg(0, signal.SIGKILL))
    _when_parent_dies(signal.SIGUSR1, parent)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        if code != -signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(guard, -code)
    os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "probe":
        try:
            _leave_network()
        except OSError as failed:
            sys.exit(str(failed))
    else:
        _confine(Limits(**json.loads(sys.argv[1])), offline=sys.argv[3] == "1")
        _guard(int(sys.argv[2]), sys.argv[4:])
