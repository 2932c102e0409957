"""Other programs on a GPU are told from recorded answers of NVML."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from kernels.measure.other_programs import GIB, GpuSnapshot, is_other, summary
from kernels.measure.telemetry import TelemetrySampler, power_record
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
        ([ALONE] * 50, 0, 0, 0), ([WITH_CHILD] * 50, 0, 0, 0), ([*[ALONE] * 49, SHARED], 1, 0.25, 2),
        ([SHARED] * 50, 1, 12.5, 2), ([UNTOLD], 1, 0.25, 0), ([UNLISTED, ALONE], 0, 0, 0),
        ([UNLISTED], None, None, None), ([], None, None, None),
    ],
)  # fmt: skip
def test_what_recorded_answers_say(snapshots, count, seconds, gib):
    result = measurement.Telemetry.model_validate(summary(snapshots, 0.25))
    assert (result.others_gpu_count, result.others_gpu_seconds, result.others_gpu_gib) == (count, seconds, gib)
    assert bool(result.void) == bool(seconds)


def test_programs_are_told_apart_until_they_end() -> None:
    ask = f"from kernels.measure.other_programs import is_other; print(is_other({os.getpid()}))"
    child = subprocess.Popen([sys.executable, "-c", ask], stdout=subprocess.PIPE, text=True)
    assert not is_other(child.pid)
    assert child.communicate()[0] == "False\n"
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
    assert orphan.stdout.readline() == "held\n"
    orphan.wait()
    with TelemetrySampler("cuda") as telemetry:
        pass
    os.close(write)
    assert telemetry.summary()["others_gpu_seconds"] > 0


def test_the_mean_is_weighted_by_time_and_taken_between_two_times_where_they_are_given():
    power = power_record([(10.0, 100.0), (11.0, 100.0), (15.0, 300.0)])
    assert power["power_w_mean"] == pytest.approx((100 + 4 * 200) / 5)
    assert power["power_gap_s"] == pytest.approx(4)
    for few in ([], [(1.0, 100.0)]):
        assert power_record(few) == {"power_w_mean": None, "power_gap_s": None}
    with TelemetrySampler("cpu", interval=60) as telemetry:
        pass
    telemetry._samples = [{"at": float(at), "watts": watts, "mhz": 1.0} for at, watts in enumerate([60, 400, 420, 60])]
    whole, steady = telemetry.summary(), telemetry.summary(1.0, 2.0)
    assert (steady["power_w_mean"], steady["power_w_median"], steady["power_gap_s"]) == (410, 410, 1)
    assert whole["power_w_mean"] < 330
