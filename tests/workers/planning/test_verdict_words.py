"""What is promised, and what was found of it, in words."""

import pytest

from workers.documents.measurement import Interval
from workers.documents.speedup import Drift, Speedup
from workers.documents.stages import ObjectiveOutcome
from workers.documents.workload import Objective
from workers.planning.verdict_words import busy_words, no_change_sentence, sentence
from workers.wording.text import promised

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
    assert said == (
        "The SLA is met. TTF64 p50 is 150 ms where 1.5x faster than today is promised; before, it was 300 ms, and it "
        "is 2x (95 % interval 1.9x to 2.1x). The median TTF64 is 2.00x faster than before (95 % interval 1.90x to "
        "2.10x, within one process). Quality could not be measured: no reason."
    )
    said = sentence([found], gain, None, "met", "no reason", "generate of transformers")
    assert "2.00x faster than generate of transformers (" in said


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
    assert said.endswith(
        "missed. TTF64 p50 is 300 ms where 1.5x faster than today is promised, and nothing is changed."
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"void": True}, " That is void."),
        ({"verdict": "not_enough_samples"}, " That takes 101 requests or more; there are 40."),
        (
            {"verdict": "not_enough_samples", "needed": 131},
            " That takes 131 requests or more, since those that follow each other are alike; there are 40.",
        ),
        ({"missed_in": 2}, " That is too close to call: the requests of 2 of the processes miss it."),
        (
            {"verdict": "too_close", "over": 1},
            " That is too close to call: 1 of 40 samples lie beyond the limit, which is 2.50 % where 5 % of all may.",
        ),
    ],
)
def test_every_value_has_its_unit_and_no_bracket_follows_another(changes, words):
    promise = Objective.model_validate({"metric": "ttf_n", "n": 64, "percentile": 95, "limit": 100})
    update = {"objective": promise, "ratio": None, "before": 1572.0, "after": 49.63, "needed": 101, **changes}
    ratio = Interval(value=23.93, low=23.31, high=24.79)
    drifts = [Drift(process=1, side="before", ratio=0.92)]
    gain = Speedup(metric="ttf_n", ratio=ratio, noise=ratio, difference=True, drifts=drifts)
    said = sentence([outcome(1, 1, 1, "met").model_copy(update=update)], gain, None, "met", "no reason")
    assert said == (
        f"The SLA is met. TTF64 p95 is 49.63 ms where at most 100 ms is promised; before, it was 1,572 ms.{words} "
        "The median TTF64 is 23.93x faster than before (95 % interval 23.31x to 24.79x, within one process). "
        "Times drifted while they were measured: the baseline in process 1 by -8 %. "
        "Quality could not be measured: no reason."
    )
