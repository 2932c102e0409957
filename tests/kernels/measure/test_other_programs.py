"""Other programs on a GPU are told from recorded answers of NVML."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from kernels.measure.other_programs import GIB, GpuSnapshot, is_other, summary
from kernels.measure.telemetry import TelemetrySampler
from workers.documents import measurement

MINE, CHILD, OTHER = 100, 101, 900
ALONE = GpuSnapshot({MINE: 20 * GIB}, frozenset({MINE}))
WITH_CHILD = GpuSnapshot({MINE: 20 * GIB, CHILD: 3 * GIB}, frozenset({MINE, CHILD}))
SHARED = GpuSnapshot({MINE: 20 * GIB, OTHER: 2 * GIB}, frozenset({MINE}))
UNTOLD = GpuSnapshot({MINE: None, OTHER: None}, frozenset({MINE}))
UNLISTED = GpuSnapshot({OTHER: 2 * GIB}, frozenset())


@pytest.mark.parametrize(
    ("snapshots", "count", "seconds", "gib"),
    [
        ([ALONE] * 50, 0, 0, 0),
        ([WITH_CHILD] * 50, 0, 0, 0),
        ([*[ALONE] * 49, SHARED], 1, 0.25, 2),
        ([SHARED] * 50, 1, 12.5, 2),
        ([UNTOLD], 1, 0.25, 0),
        ([UNLISTED, ALONE], 0, 0, 0),
        ([UNLISTED], None, None, None),
        ([], None, None, None),
    ],
)
def test_what_recorded_answers_say(
    snapshots: list[GpuSnapshot], count: int | None, seconds: float | None, gib: float | None
) -> None:
    found = measurement.Telemetry.model_validate(summary(snapshots, 0.25))
    assert (found.others_gpu_count, found.others_gpu_seconds, found.others_gpu_gib) == (count, seconds, gib)
    assert bool(found.void) == bool(seconds)


def test_a_child_and_its_parent_are_one_program() -> None:
    ask = f"from kernels.measure.other_programs import is_other; print(is_other({os.getpid()}))"
    child = subprocess.Popen([sys.executable, "-c", ask], stdout=subprocess.PIPE, text=True)
    assert not is_other(child.pid)
    assert child.communicate()[0] == "False\n"


def test_a_stranger_is_another_program_until_it_ends() -> None:
    code = "import subprocess as s; print(s.Popen(['sleep', '600'], stdout=s.DEVNULL, start_new_session=True).pid)"
    stranger = int(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert is_other(stranger)
    os.kill(stranger, signal.SIGKILL)
    while psutil.pid_exists(stranger) and psutil.Process(stranger).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)


def test_on_a_cpu_nothing_is_said_of_a_gpu() -> None:
    with TelemetrySampler("cpu", interval=0.01) as telemetry:
        pass
    assert telemetry.summary()["others_gpu_seconds"] is None


@pytest.mark.gpu
def test_another_process_on_the_gpu_is_seen() -> None:
    import torch

    hold = "import torch; torch.ones(3 << 30, dtype=torch.uint8, device='cuda'); print('held', flush=True); input()"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {hold!r}], start_new_session=True)"
    torch.ones(1, device="cuda")
    with TelemetrySampler("cuda") as telemetry:
        pass
    assert not telemetry.summary()["others_gpu_seconds"]
    read, write = os.pipe()
    orphan = subprocess.Popen([sys.executable, "-c", code], stdin=read, stdout=subprocess.PIPE, text=True)
    assert orphan.stdout is not None
    assert orphan.stdout.readline() == "held\n"
    orphan.wait()
    with TelemetrySampler("cuda") as telemetry:
        pass
    os.close(write)
    assert telemetry.summary()["others_gpu_seconds"] > 0
