"""What is promised, and what was found of it, in words."""

import pytest

from tests.sample_results import verify
from workers.documents.workload import Objective
from workers.planning.verdict_words import busy_words, sentence
from workers.wording.text import promised


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ({"metric": "ttft", "limit": 100}, "≤ 100 ms"),
        ({"metric": "throughput", "limit": 1000}, "≥ 1,000 tokens/s"),
        ({"metric": "ttf_n", "n": 64, "at_least_faster": 1.5}, "≥ 1.5x faster"),
        ({"metric": "throughput", "at_least_faster": 2}, "≥ 2x as much"),
    ],
)
def test_a_promise_in_words(objective, words):
    assert promised(Objective.model_validate(objective)) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(37.481, "is 37.5 ms where"), (99.962, "is 99.96 ms"), (100.02, "is 100.02 ms"), (100, "is 100 ms")],
)
def test_a_value_is_as_exact_as_in_tables_or_tells_itself_from_the_limit(value, words):
    result = verify()
    outcome = result.outcomes[0].model_copy(update={"after": value, "before": 769.42})
    verdict = sentence([outcome], result.speedup, None, "met", "no text")
    assert f"TTF64 p50 {words}" in verdict
    assert "before, it was 769 ms" in verdict


@pytest.mark.parametrize("verdict", ["too_close", "not_enough_samples"])
def test_what_is_undecided_on_a_busy_machine_says_so(verdict):
    assert busy_words(0.54, verdict).startswith("Nothing is decided: the machine was busy. Other programs used 54 % of")
    assert busy_words(None, verdict) == busy_words(0.54, "met") == busy_words(0.54, "missed") == ""
