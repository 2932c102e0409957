"""A service ends when it is told to, and when the one that started it dies; each GPU that the driver names has one."""

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
from workbench.embedded.devices import Device, find_devices
from workbench.embedded.process import EmbeddedError, Service, wait_until

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
IGNORING = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "


def service(tmp_path: Path, command: list[str]) -> Service:
    return Service("the sleeper", command, tmp_path / "log" / "sleeper.log", dict(os.environ))


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(("ignored", "grace", "by"), [("", 120, signal.SIGTERM), (IGNORING, 0.2, signal.SIGKILL)])
def test_it_runs_logs_and_stops_and_is_killed_where_it_ignores_the_signal(tmp_path, ignored, grace, by):
    sleeper = service(tmp_path, [SLEEPER[0], "-c", ignored + SLEEPER[2]])
    sleeper.start()
    wait_until(lambda: "up" in sleeper.last_words(), [sleeper], 120, "the sleeper")
    assert sleeper.exit_status is None
    for _ in range(2):
        sleeper.stop(grace_seconds=grace)
        assert sleeper.exit_status == -by


def test_workers_are_stopped_at_once_each_told_so_once(tmp_path):
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


def test_one_that_cannot_start_or_ends_while_starting_is_named_with_its_last_words(tmp_path):
    failing = service(tmp_path, [sys.executable, "-c", "raise SystemExit('no such table')"])
    failing.start()
    with pytest.raises(EmbeddedError, match=r"the sleeper ended with status 1 while starting(?s:.*)no such table"):
        wait_until(lambda: False, [failing], 120, "the sleeper")
    with pytest.raises(EmbeddedError, match=r"the sleeper: /nowhere/at-all cannot be started: No such file"):
        service(tmp_path, ["/nowhere/at-all"]).start()


def test_it_dies_with_the_launcher(tmp_path):
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


def driver_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def test_every_known_gpu_gets_a_worker_and_several_of_a_class_one_more(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    h200, h100, a100 = "NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
    for names, first, devices in (
        ([h200, h100, a100], 0, [("h200", "GPU-0"), ("h100", "GPU-1"), ("a100", "GPU-2")]),
        ([h200, a100, h200], 3, [("h200x2", "GPU-0,GPU-2")]),
        ([h200] * 5, 5, [("h200x2", "GPU-0,GPU-1"), ("h200x4", "GPU-0,GPU-1,GPU-2,GPU-3")]),
        ([h100] * 2, 2, [("h100x2", "GPU-0,GPU-1")]),
        (["GeForce GT 710"], 0, [("cpu",)]),
    ):
        listed = "\n".join(f"{number}, GPU-{number}, {name}" for number, name in enumerate(names))
        driver_says(tmp_path, monkeypatch, listed)
        assert find_devices()[first:] == [Device(*device) for device in devices]
    monkeypatch.setenv("PATH", "/nowhere")
    assert find_devices() == [Device("cpu")]


@pytest.mark.parametrize(
    ("visible", "uuids"), [("1", ["GPU-b"]), ("GPU-c, 0", ["GPU-a", "GPU-c", "GPU-a,GPU-c"]), ("", [""])]
)
def test_a_gpu_that_is_hidden_from_cuda_gets_no_worker(tmp_path, monkeypatch, visible, uuids):
    listed = "\n".join(f"{index}, GPU-{letter}, NVIDIA H200" for index, letter in enumerate("abc"))
    driver_says(tmp_path, monkeypatch, listed)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [device.visible for device in find_devices()] == uuids
