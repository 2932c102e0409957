"""Threads of a CPU stage: physical cores of its cpuset, within the container's quota."""

import os
from pathlib import Path

import pytest

from workers.cores import usable_cores
from workers.environment import stage_environment


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


def test_a_stage_gets_that_many_threads_unless_told_otherwise(tmp_path):
    made = stage_environment({}, tmp_path, tmp_path / "caches")
    assert 1 <= int(made["OMP_NUM_THREADS"]) <= len(os.sched_getaffinity(0))
    assert stage_environment({"OMP_NUM_THREADS": "3"}, tmp_path, tmp_path / "caches")["OMP_NUM_THREADS"] == "3"
