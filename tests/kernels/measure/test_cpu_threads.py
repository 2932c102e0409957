"""Threads of a CPU stage: physical cores of its cpuset, within the container's quota."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.measure.cpu_threads import thread_settings, usable_cores
from workers.host.child_environment import stage_environment


@pytest.fixture
def cpus(tmp_path: Path) -> Path:
    """Two packages of two cores with two hyper-threads each."""
    for number in range(8):
        topology = tmp_path / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{number % 4 // 2}\n")
        (topology / "core_id").write_text(f"{number % 2}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("affinity", "quota", "expected"),
    [
        (range(8), "max 100000", 4),
        ({0, 4}, "max 100000", 1),
        ({0, 1}, "max 100000", 2),
        (range(8), "250000 100000", 2),
        (range(8), "50000 100000", 1),
        (range(8), "", 4),
        ({90, 91}, "", 2),
    ],
)
def test_cores_not_threads_within_cpuset_and_quota(cpus, tmp_path, affinity, quota, expected):
    (tmp_path / "cpu.max").write_text(quota)
    assert usable_cores(cpus, tmp_path / "cpu.max", affinity) == expected


def test_threads_are_as_many_as_cores_unless_told_otherwise():
    assert 1 <= int(thread_settings({})["OMP_NUM_THREADS"]) <= len(os.sched_getaffinity(0))
    assert thread_settings({"OMP_NUM_THREADS": "3", "GOMP_SPINCOUNT": "7"}) == {
        "OMP_NUM_THREADS": "3",
        "GOMP_SPINCOUNT": "7",
    }


def test_a_stage_and_a_plan_run_by_hand_compute_with_the_same_settings(tmp_path, monkeypatch):
    for name in ("OMP_NUM_THREADS", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    program = "import os, sys; from kernels.__main__ import main; main(['list']); print(dict(os.environ))"
    alone = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    for name, value in stage_environment({}, tmp_path, tmp_path / "caches").items():
        assert name not in ("OMP_NUM_THREADS", "GOMP_SPINCOUNT") or f"'{name}': '{value}'" in alone
