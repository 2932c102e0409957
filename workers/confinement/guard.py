"""The guard: starts a command confined, and ends all that came of it when the command or the parent ends.

It stays outside the confinement itself, so that the command can neither signal nor trace it. Every descendant that
loses its parent becomes the guard's child, so none escapes by a session of its own.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from workers.confinement import privileges, system
from workers.confinement.bounds import Bounds, ResourceLimits
from workers.confinement.confine import confine
from workers.confinement.control_group import ControlGroup

REFUSED_CODE = 125
KILL_SECONDS = 5
PASSED_ON = (signal.SIGTERM, signal.SIGUSR1)


def main() -> NoReturn:
    """Arguments: limits and bounds as JSON, the parent's process id, the descriptor to report to, the command."""
    limits, bounds = ResourceLimits(**json.loads(sys.argv[1])), Bounds(**json.loads(sys.argv[2]))
    command = sys.argv[5:]
    guard(limits, bounds, int(sys.argv[3]), int(sys.argv[4]), lambda: os.execvp(command[0], command))


def guard(limits: ResourceLimits, bounds: Bounds, parent: int, report: int, start: Callable[[], NoReturn]) -> NoReturn:
    """Call `start` in a confined process, pass SIGTERM on to it, and end with its exit code or by its signal."""
    system.prctl(system.CHILD_SUBREAPER, 1)
    memory = {} if limits.memory_bytes is None else {"memory": limits.memory_bytes}
    group = ControlGroup({"pids": limits.processes, **memory})
    if privileges.to_reach_files() is not None:
        _hand_over(bounds)
    own_pid = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until there are handlers, else one would end the guard alone
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        _become(limits, bounds, group, own_pid, report)
        start()
    os.close(report)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    signal.signal(signal.SIGUSR1, lambda *_: _end(-signal.SIGKILL, group))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    _when_parent_dies(signal.SIGUSR1, parent)
    while (ended := os.wait())[0] != pid:
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _end(os.waitstatus_to_exitcode(ended[1]), group)


def _become(limits: ResourceLimits, bounds: Bounds, group: ControlGroup, guard_pid: int, report: int) -> None:
    try:
        protection = confine(limits, bounds, group)
        os.write(report, protection.to_json().encode())
        os.close(report)
        if protection.missing and bounds.required:
            os._exit(REFUSED_CODE)
        _when_parent_dies(signal.SIGKILL, guard_pid)
    except OSError as error:
        print(f"the stage cannot be confined: {error}", file=sys.stderr, flush=True)
        os._exit(REFUSED_CODE)


def _hand_over(bounds: Bounds) -> None:
    """Give what the command may write to its user, and follow no link on the way."""
    for root in bounds.writable:
        if Path(root).exists() and os.stat(root).st_uid != bounds.user:
            for directory, _, files in os.walk(root, topdown=False):
                for path in (*(os.path.join(directory, name) for name in files), directory):
                    with contextlib.suppress(FileNotFoundError):
                        os.chown(path, bounds.user, bounds.user, follow_symlinks=False)


def _when_parent_dies(number: signal.Signals, parent: int) -> None:
    """Have the kernel send `number` then; a parent that died before this call has left us another one."""
    system.prctl(system.PARENT_DEATH_SIGNAL, number)
    if os.getppid() != parent:
        os._exit(1)


def _end(code: int, group: ControlGroup) -> NoReturn:
    """Kill every descendant, and end with the code, or by the signal when it is negative."""
    _kill_descendants()
    group.remove()
    if code < 0:
        if code != -signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _kill_descendants() -> None:
    end = time.monotonic() + KILL_SECONDS
    while time.monotonic() < end:
        for pid in _descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def _descendants(root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                parent = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(entry))
    descendants: set[int] = set()
    waiting = [root]
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), []) if pid not in descendants]
        descendants.update(new)
        waiting.extend(new)
    return descendants
