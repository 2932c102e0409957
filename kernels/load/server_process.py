"""A server in a process of its own, for as long as a block lasts."""

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

LOG_TAIL = 800
"""Characters of a server's log that an error quotes."""
STOP_SECONDS = 30.0


class NotStarted(RuntimeError):
    """The server did not come up; the text says so in a sentence, with the end of its log."""


_reserved: list[socket.socket] = []


def reserve_port() -> int:
    """A port of 127.0.0.1, bound and never listened at until this process ends: only a server that sets SO_REUSEADDR,
    as web servers do, can bind it as well.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _reserved.append(holder)
    return int(holder.getsockname()[1])


@contextmanager
def run_server(
    command: Sequence[str], ready_url: str, log: Path, seconds: float, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the command, waits for a 200 from `ready_url`, ends its whole group afterwards. Raises NotStarted."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    try:
        end = time.monotonic() + seconds
        while not answers(ready_url):
            if process.poll() is not None or time.monotonic() > end:
                tail = " ".join(log.read_text(errors="replace").split())[-LOG_TAIL:]
                how = f"did not answer within {seconds:g} s" if process.poll() is None else "ended"
                raise NotStarted(f"{Path(command[0]).name} … {' '.join(command[1:4])} {how}; its log ends: {tail}")
            time.sleep(0.2)
        yield process
    finally:
        _end(process)


def answers(url: str) -> bool:
    """Whether a GET is answered with 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False


def _end(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM, then SIGKILL for what is left of its group."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
