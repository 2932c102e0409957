"""How the times of host_cost are collected from its processes, which need a GPU to measure."""

import sys
from collections import Counter

import pytest

from benchmarks import host_cost

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


def test_a_case_that_fails_hangs_or_ends_its_process_is_refused_once_and_the_others_are_timed() -> None:
    result = list(host_cost.rounds([sys.executable, "-c", CHILD], 5))
    assert Counter(at for at, _ in result) == {0: 4, 1: 1, 2: 4, 3: 1, 4: 4}
    refused = {at: told["refused"] for at, told in result if "refused" in told}
    assert refused == {1: "it cannot be built", 3: "no row within 60 s, or its process has ended"}
    result = list(host_cost.rounds([sys.executable, "-c", "import time; time.sleep(600)"], 1, seconds=0.2))
    assert result == [(0, {"refused": "no row within 0.2 s, or its process has ended"})]


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
