"""A service ends when it is told to, and when the one that started it dies."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_for
from workbench.embedded import Workbench
from workbench.embedded.devices import Device
from workbench.embedded.process import EmbeddedError, Service, wait_until

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]


def service(tmp_path: Path, command: list[str]) -> Service:
    return Service("the sleeper", command, tmp_path / "log" / "sleeper.log", dict(os.environ))


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_it_runs_logs_and_stops(tmp_path: Path) -> None:
    sleeper = service(tmp_path, SLEEPER)
    sleeper.start()
    wait_until(lambda: "up" in sleeper.last_words(), [sleeper], 120, "the sleeper")
    assert sleeper.exit_status is None
    sleeper.stop()
    assert sleeper.exit_status == -signal.SIGTERM
    sleeper.stop()


def test_one_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    stubborn = service(tmp_path, [sys.executable, "-c", code])
    stubborn.start()
    wait_until(lambda: "up" in stubborn.last_words(), [stubborn], 120, "the sleeper")
    stubborn.stop(grace_seconds=0.2)
    assert stubborn.exit_status == -signal.SIGKILL


def test_workers_are_stopped_at_once_each_told_so_once(tmp_path: Path) -> None:
    """Each ends when the other one has been told to."""
    code = textwrap.dedent("""
        import os, pathlib, signal, sys, time
        own, other = map(pathlib.Path, sys.argv[1:])
        def stop(*_):
            with own.open("a") as told:
                told.write("told")
            while not other.exists():
                time.sleep(0.01)
            sys.exit(0)
        signal.signal(signal.SIGTERM, stop)
        print("up", flush=True)
        time.sleep(600)
    """)
    paths = [tmp_path / "first", tmp_path / "second"]
    workbench, workers = Workbench(tmp_path, devices=[Device("cpu")]), []
    for own, other in (paths, paths[::-1]):
        command = [sys.executable, "-c", code, str(own), str(other)]
        workers.append(Service(own.name, command, tmp_path / f"{own.name}.log", dict(os.environ)))
        workers[-1].start()
    for worker in workers:
        wait_until(lambda worker=worker: "up" in worker.last_words(), [worker], 120, "a worker")
    workbench.services, workbench.workers = list(workers), list(workers)
    workbench.stop()
    assert [worker.exit_status for worker in workers] == [0, 0]
    assert [path.read_text() for path in paths] == ["told", "told"]


def test_one_that_ends_while_starting_is_named_with_its_last_words(tmp_path: Path) -> None:
    failing = service(tmp_path, [sys.executable, "-c", "raise SystemExit('no such table')"])
    failing.start()
    with pytest.raises(EmbeddedError, match=r"the sleeper ended with status 1 while starting(?s:.*)no such table"):
        wait_until(lambda: False, [failing], 120, "the sleeper")


def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"the sleeper: /nowhere/at-all cannot be started: No such file"):
        service(tmp_path, ["/nowhere/at-all"]).start()


def test_it_dies_with_the_launcher(tmp_path: Path) -> None:
    launcher = textwrap.dedent(f"""
        import os, signal, sys
        from pathlib import Path
        from workbench.embedded.process import Service
        sleeper = Service("sleeper", {SLEEPER!r}, Path({str(tmp_path / "sleeper.log")!r}), dict(os.environ))
        sleeper.start()
        print(sleeper.process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", launcher], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    wait_for(lambda: is_gone(int(done.stdout)), 120, "the end of the sleeper")
