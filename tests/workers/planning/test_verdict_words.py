"""What is promised, and what was found of it, in words."""

import pytest

from workers.charts.text import promised
from workers.documents.measurement import Interval
from workers.documents.speedup import Speedup
from workers.documents.stages import ObjectiveOutcome
from workers.documents.workload import Objective
from workers.planning.verdict_words import no_change_sentence, sentence

FASTER = {"metric": "ttf_n", "n": 64, "at_least_faster": 1.5}


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ({"metric": "ttft", "limit": 100}, "≤ 100 ms"),
        ({"metric": "throughput", "limit": 1000}, "≥ 1,000 tokens/s"),
        (FASTER, "≥ 1.5x faster"),
        ({"metric": "throughput", "at_least_faster": 2}, "≥ 2x as much"),
    ],
)
def test_a_promise_in_words(objective, words):
    assert promised(Objective.model_validate(objective)) == words


def outcome(low: float, value: float, high: float, verdict: str) -> ObjectiveOutcome:
    return ObjectiveOutcome(
        objective=Objective.model_validate(FASTER),
        before=300,
        after=300 / value,
        verdict_before="missed",
        verdict=verdict,
        samples=40,
        over=0,
        requests=40,
        ratio=Interval(value=value, low=low, high=high),
        needed=9,
    )


def test_a_promise_relative_to_today_says_the_ratio_that_was_found():
    found = outcome(1.9, 2, 2.1, "met")
    gain = Speedup(metric="ttf_n", ratio=found.ratio, noise=Interval(value=1, low=0.98, high=1.02), difference=True)
    said = sentence([found], gain, None, "met", "no reason")
    wanted = (
        "TTF64 p50 is 150 ms (300 before), promised 1.5x faster than today, and found 2x (95 % interval 1.9 to 2.1)"
    )
    assert wanted in said
    assert "2.00x faster than before (1.90 to 2.10 within one process)" in said
    said = sentence([found], gain, None, "met", "no reason", "generate of transformers")
    assert "2.00x faster than generate of transformers (" in said


def test_where_nothing_is_changed_no_ratio_is_said():
    class Tried:
        label, changed, why_not, no_quality, today = (
            "eager",
            False,
            "Nothing is faster.",
            "",
            "generate of transformers",
        )

    said = no_change_sentence([Tried()], [], [outcome(1, 1, 1, "missed")], "missed")
    assert "With generate of transformers the SLA is missed" in said
    assert said.endswith("missed: TTF64 p50 is 300 ms, promised 1.5x faster than today, and nothing is changed.")
