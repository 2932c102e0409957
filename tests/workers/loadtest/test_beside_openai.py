"""Our load generator beside OpenAI's own client, against a stub that writes tokens at known times."""

import sys

import pytest

from benchmarks.load_generators import compare_figures, ours, the_openai_package
from tests.openai_package import PACKAGES
from tests.workers.loadtest.stub import running_stub

USERS, REQUESTS, TOKENS, ROUNDS = 2, 30, 16, 3
LIMITS = {"ttft_late_ms": 1.0, "tpot_off_ms": 1.0, "throughput_off": 0.01}


def test_its_times_are_no_further_off_than_those_of_openais_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 1 ms or 1 % of the stub's own times, or no further off than `openai` in the same round."""
    monkeypatch.setenv("PYTHONPATH", str(PACKAGES))
    for number in range(ROUNDS):
        result = {}
        with running_stub() as stub:
            for tool in ("ours", "openai"):
                prompts = [f"{tool} {number} {index} word" for index in range(REQUESTS)]
                sizes = prompts, TOKENS, USERS
                sent = (
                    ours(stub.url, *sizes) if tool == "ours" else the_openai_package(sys.executable, stub.url, *sizes)
                )
                result[tool] = compare_figures(sent, list(stub.log().values()))
        assert all(value["ttft_ms"] > 0 for value in result.values())
        if all(off(result["ours"], name) <= max(limit, off(result["openai"], name)) for name, limit in LIMITS.items()):
            return
    pytest.fail(f"further off in each of {ROUNDS} rounds, in the last one {result}")


def off(found: dict, name: str) -> float:
    return found[name]["p50"] if isinstance(found[name], dict) else found[name]
