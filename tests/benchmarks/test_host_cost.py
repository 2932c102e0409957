"""How the times of host_cost and two_commits are collected from their processes, which need a GPU to measure."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import host_cost, two_commits

CHILD = """
import json, sys
for case in map(int, sys.argv[1:]):
    if case == 1:
        print(json.dumps({"refused": "it cannot be built"}), flush=True)
        break
    if case == 3:
        break
    print(json.dumps({"checked": {str(100 * (case + 1)): 1}}), flush=True)
"""


def test_a_case_that_fails_or_ends_its_process_is_refused_once_and_the_others_are_timed_in_every_round() -> None:
    found = list(host_cost.rounds([sys.executable, "-c", CHILD], 5))
    assert Counter(at for at, _ in found) == {0: 4, 1: 1, 2: 4, 3: 1, 4: 4}
    refused = {at: told["refused"] for at, told in found if "refused" in told}
    assert refused == {1: "it cannot be built", 3: "no row within 60 s, or its process has ended"}


def test_a_case_that_hangs_is_refused() -> None:
    found = list(host_cost.rounds([sys.executable, "-c", "import time; time.sleep(600)"], 1, seconds=0.2))
    assert found == [(0, {"refused": "no row within 0.2 s, or its process has ended"})]


def test_a_row_has_the_percentiles_of_all_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [
        ("skinny", {"op": "linear", "m": 1, "n": 64, "k": 64}, {"pdl": True}),
        ("missing", *host_cost.CASES[0][1:]),
    ]
    rounds = [(0, {"checked": {"500": 6, "700": 3}}), (1, {"refused": "no"}), (0, {"checked": {"500": 1, "900": 2}})]
    monkeypatch.setattr(host_cost, "CASES", cases)
    monkeypatch.setattr(host_cost, "rounds", lambda *_: iter(rounds))
    *_, (row, refused) = host_cost.rows()
    assert (row["checked"], row["calls"]) == ([5.0, 5.0, 9.0], 12)
    assert (row["variant"], row["case"]["epilogue"], row["params"]) == ("skinny", "none", {"pdl": True})
    assert refused["refused"] == "no"


def test_a_kernel_is_slower_when_its_interval_lies_above_the_limit() -> None:
    pairs = [[([1.0, 2.0, None], [1.0 + pair / 1000, 2.1, None])] * 4 for pair in range(12)]
    same, slower, refused = two_commits.rows(pairs, {"2": "no"}, ["decode_hopper"])
    assert not same["slower"]
    assert (slower["before_ms"], slower["after_ms"], slower["ratio"], slower["slower"]) == (2.0, 2.1, [1.05] * 3, True)
    assert refused["refused"] == "no"


TREE = """
import json, sys
print(json.dumps({"1": "it cannot be built"}), flush=True)
for _ in sys.stdin:
    print(json.dumps([float(sys.argv[1]), None]), flush=True)
"""


def test_pairs_are_timed_a_few_at_a_time_and_counted_after_each_group(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[str]] = []
    alive: list[int] = []

    def start(tree: Path, order: str, only: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", TREE, tree.name], stdin=-1, stdout=-1, text=True, bufsize=1)
        started.append(process)
        alive.append(sum(each.returncode is None for each in started))
        return process

    monkeypatch.setattr(two_commits, "_start", start)
    monkeypatch.setattr(two_commits, "HERE", Path("3"))
    told = [(len(pairs), refused) for pairs, refused in two_commits.pairs_of(Path("2"), [])]
    assert told == [(count, {"1": "it cannot be built"}) for count in (4, 8, 12)]
    assert (len(started), max(alive)) == (24, 8)
    assert not any(each.returncode for each in started)


def test_a_folder_without_kernels_is_refused_in_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.two_commits", str(tmp_path), "--json", str(tmp_path / "new.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "benchmarks/h200/base.sh packs that of a commit" in done.stderr


def test_the_packed_kernels_name_their_commit(tmp_path: Path) -> None:
    root = Path(two_commits.__file__).parents[1]
    archive = tmp_path / "base.tar.xz"
    command = ["bash", str(root / "benchmarks" / "h200" / "base.sh"), "HEAD", str(archive)]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    subprocess.run(["tar", "-C", str(tmp_path), "-xJf", str(archive)], check=True, timeout=120)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True, text=True).stdout
    assert head.startswith((tmp_path / "COMMIT").read_text())
    assert (tmp_path / "kernels" / "registry.py").is_file()
