"""The commit and the sources beside a figure are the product's own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from kernels.measure import host_memory
from kernels.measure.cpu_threads import thread_settings, usable_cores
from kernels.measure.environment import ROOT, checked_out_commit, environment_info, sources_digest
from workers.host.child_environment import stage_environment


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one commit and a package folder in it."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "code.py").write_text("1")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_the_commit_is_that_of_the_checkout_at_the_root_and_says_changed_files(checkout):
    assert checked_out_commit(checkout) == git(checkout, "rev-parse", "HEAD")
    assert checked_out_commit(checkout / "package") == ""
    (checkout / "package" / "code.py").write_text("2")
    assert checked_out_commit(checkout) == git(checkout, "rev-parse", "HEAD") + "-dirty"


def digest(root: Path) -> str:
    sources_digest.cache_clear()
    return sources_digest(root, ("package",))


def test_the_digest_outlives_a_rewritten_history_and_tells_of_every_change_without_git(checkout):
    before, commit = digest(checkout), checked_out_commit(checkout)
    git(checkout, "commit", "-q", "--amend", "-m", "another subject")
    assert checked_out_commit(checkout) != commit
    assert digest(checkout) == before
    shutil.rmtree(checkout / ".git")
    seen = [digest(checkout)]
    code = checkout / "package" / "code.py"
    code.write_text("2")
    seen.append(digest(checkout))
    code.rename(checkout / "package" / "other.py")
    seen.append(digest(checkout))
    (checkout / "package" / "code.cu").write_text("")
    seen.append(digest(checkout))
    assert len(set(seen)) == 4
    (checkout / "package" / "__pycache__").mkdir()
    (checkout / "package" / "__pycache__" / "code.pyc").write_text("3")
    (checkout / "outside.py").write_text("4")
    assert digest(checkout) == seen[-1]


def test_a_copy_that_is_no_checkout_has_the_digest_of_the_environment(tmp_path, monkeypatch):
    for package in ("kernels", "workers"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("WORKBENCH_COMMIT", "stated")
    assert environment_info(device="cpu")["sources"] == sources_digest(tmp_path)
    (tmp_path / "kernels" / "plan.py").write_text("")
    sources_digest.cache_clear()
    assert environment_info(device="cpu")["sources"] != sources_digest(tmp_path)


MIB = 1 << 20


def written(group: Path, **files: object) -> None:
    group.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (group / name.replace("__", ".")).write_text(f"{content}\n")


@pytest.mark.parametrize(
    ("own", "at"),
    [
        ("0::/pod/serve", "pod/serve"),
        ("0::/pod/serve", "pod"),  # a group around this process's
        ("0::/seen/from/outside", "."),
        ("4:cpu:/\n0::/", "."),
    ],
)
def test_a_limit_of_a_control_group_counts_whichever_is_around_the_process(tmp_path: Path, own: str, at: str) -> None:
    """What is used without files that were read and are not in use."""
    (tmp_path / "own").write_text(f"{own}\n")
    groups = tmp_path / "groups"
    stat = {"memory__current": 40 * MIB, "memory__stat": f"anon 1\ninactive_file {10 * MIB}"}
    written(groups / "pod/serve", memory__max="max", **stat)
    written(groups / at, memory__max=100 * MIB, **stat)
    assert host_memory.total_bytes(groups, tmp_path / "own") == 100 * MIB
    assert host_memory.free_bytes(groups, tmp_path / "own") == 70 * MIB


def test_version_1_of_control_groups_is_read_and_without_a_limit_the_machine(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("4:memory:/serve\n0::/\n")
    stat = f"inactive_file 0\ntotal_inactive_file {MIB}"
    written(tmp_path / "memory", memory__limit_in_bytes=9 * MIB, memory__usage_in_bytes=8 * MIB, memory__stat=stat)
    assert host_memory.total_bytes(tmp_path, tmp_path / "own") == 9 * MIB
    assert host_memory.free_bytes(tmp_path, tmp_path / "own") == 2 * MIB
    assert host_memory.total_bytes(tmp_path, tmp_path / "missing") == psutil.virtual_memory().total
    assert 0 < host_memory.free_bytes() <= host_memory.total_bytes()


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
        (range(8), "max 100000", 4), ({0, 4}, "max 100000", 1), ({0, 1}, "max 100000", 2),
        (range(8), "250000 100000", 2), (range(8), "50000 100000", 1), (range(8), "", 4), ({90, 91}, "", 2),
    ],
)  # fmt: skip
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
