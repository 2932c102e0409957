"""How tests wait for other processes: for what happens, never for a time."""

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(
    condition: Callable[[], Any],
    seconds: float,
    what: str,
    logs: Callable[[], str] = str,
    processes: Mapping[str, subprocess.Popen[bytes]] | None = None,
) -> Any:
    """Poll until `condition` is true, and return its value.

    Fails with what `logs` returns when time is over, and at once when one of the `processes` has ended.
    """
    deadline, pause = time.monotonic() + seconds, 0.01
    while True:
        value = condition()
        if value:
            return value
        known = (processes or {}).items()
        ended = {name: status for name, process in known if (status := process.poll()) is not None}
        if ended or time.monotonic() > deadline:
            why = f"cannot happen any more, ended: {ended}" if ended else f"did not happen within {seconds} s"
            raise AssertionError(f"{what} {why}\n{logs()}")
        time.sleep(pause)
        pause = min(0.2, 1.5 * pause)
