"""What is promised, and what was found of it, in words."""

import pytest

from workers.documents.stages import ObjectiveOutcome
from workers.documents.workload import Objective
from workers.planning.verdict_words import busy_words
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


def _timed(after, verdict="missed", **objective):
    promise = Objective.model_validate({"metric": "ttft", "limit": 100} | objective)
    facts = {"before": 900, "after": after, "samples": 40, "over": 40, "needed": 8}
    return ObjectiveOutcome(objective=promise, verdict_before="missed", verdict=verdict, **facts)


def test_a_busy_cpu_decides_no_promise_that_it_may_be_the_cause_of():
    said = busy_words([_timed(200)], 0.61)
    assert said.startswith("Nothing is decided: the machine was busy. Other programs used 61 % of the CPU")
    assert busy_words([_timed(300)], 0.61) == "", "39 % of 300 ms are still too long"
    assert busy_words([_timed(200), _timed(300)], 0.61) == "", "one promise is missed whatever the others used"
    assert busy_words([_timed(50, "met")], 0.61) == busy_words([_timed(200)], None) == ""
    rate = {"metric": "throughput", "limit": 1000, "unit": "tokens/s"}
    assert busy_words([_timed(500, **rate)], 0.61)
    assert not busy_words([_timed(300, **rate)], 0.61)
