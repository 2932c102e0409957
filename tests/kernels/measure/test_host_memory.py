"""The memory of a container is that of its limit."""

from pathlib import Path

import psutil
import pytest

from kernels.measure import host_memory

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


def test_version_1_of_control_groups_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("4:memory:/serve\n0::/\n")
    stat = f"inactive_file 0\ntotal_inactive_file {MIB}"
    written(tmp_path / "memory", memory__limit_in_bytes=9 * MIB, memory__usage_in_bytes=8 * MIB, memory__stat=stat)
    assert host_memory.total_bytes(tmp_path, tmp_path / "own") == 9 * MIB
    assert host_memory.free_bytes(tmp_path, tmp_path / "own") == 2 * MIB


def test_without_a_limit_it_is_the_machines(tmp_path: Path) -> None:
    assert host_memory.total_bytes(tmp_path, tmp_path / "missing") == psutil.virtual_memory().total
    assert 0 < host_memory.free_bytes() <= host_memory.total_bytes()
