"""The whole workbench on a disk that is full for a while, during which Redis is killed. Prints what became of it."""

import contextlib
import json
import os
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.workbench.small_disk import fill
from workbench.embedded.process import EmbeddedError
from workbench.embedded.stack import RESTARTS_PER_MINUTE, Workbench

KILLS = RESTARTS_PER_MINUTE + 1
SWEPT = "Task workbench.runs.tasks.sweep_runs"


def wait_until(ready: Callable[[], bool], seconds: float) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + seconds
    while not ready() and time.monotonic() < deadline:
        time.sleep(0.05)
    return ready()


def answers(url: str) -> bool:
    """Whether the login page opens."""
    with contextlib.suppress(OSError):
        return urllib.request.urlopen(f"{url}/login/", timeout=120).status == 200
    return False


def main(folder: Path) -> dict[str, object]:
    gave_up: list[str] = []
    stopping = threading.Event()
    with Workbench(data=folder, port=0, devices=[], env={"SWEEP_SECONDS": "2"}) as workbench:

        def watch() -> None:
            try:
                workbench.watch(stopping)
            except EmbeddedError as error:
                gave_up.append(str(error))

        watching = threading.Thread(target=watch)
        watching.start()
        filler = fill(folder)
        redis = next(service for service in workbench.services if service.name == "Redis")
        for _ in range(KILLS):
            wait_until(lambda: redis.exit_status is None, 120)
            os.kill(redis.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
            wait_until(lambda: redis.exit_status is not None, 120)
        found: dict[str, object] = {"gave_up": gave_up, "page": answers(workbench.url)}
        filler.unlink()
        found["running"] = wait_until(lambda: all(each.exit_status is None for each in workbench.services), 180)
        log = folder / "log" / "ledger.log"
        swept = log.read_text().count(SWEPT)
        found["beat"] = wait_until(lambda: log.read_text().count(SWEPT) > swept + 1, 180)
        stopping.set()
        watching.join()
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
