"""Candidates win by more than the noise; a plan as the cheapest that keeps every promise, or as the fastest."""

import pytest

from kernels import registry
from kernels.plan import Plan
from tests.workers.conftest import GATE_UP, candidate
from workers.documents.measurement import Interval
from workers.documents.stages import PlanTrial
from workers.documents.workload import Workload
from workers.planning import ranking
from workers.planning.choosing import choose_plan, cost_of

LIMIT = {"metric": "ttf_n", "n": 64, "limit": 60}


def trial(label: str, ms: float, gpus: int = 1, keeps: str = "met", gate: str = "pass") -> PlanTrial:
    plan = Plan(model_digest="d", gpu="h200", tensor_parallel_size=gpus, runner="megakernel").model_dump()
    primary = Interval(value=ms, low=ms * 0.99, high=ms * 1.01)
    rate = 64_000 / ms
    return PlanTrial(label=label, plan=plan, primary=primary, gate=gate, keeps=keeps, tokens_per_second=rate)


def trials(**changes: str) -> list[PlanTrial]:
    """What runs today misses; one GPU and two keep the promise, four are the fastest."""
    today = trial("eager", 500, keeps="missed")
    others = [trial("one", 50), trial("two", 30, gpus=2), trial("four", 20, gpus=4)]
    return [today, *(other.model_copy(update={"keeps": changes.get(other.label, "met")}) for other in others)]


def taken(found: list[PlanTrial], prefer: str = "cheapest", objective: dict[str, object] = LIMIT):
    workload = Workload.model_validate({"model": "m", "objectives": [objective], "constraints": {"prefer": prefer}})
    return choose_plan(found, workload, "tokens")


def test_the_cheapest_that_keeps_the_promise_is_taken_with_its_alternatives() -> None:
    result = trials()
    choice = taken(result)
    assert choice.trial.label == "one"
    assert cost_of(result[1]) == pytest.approx(1e6 / 3600 / 1280)
    assert choice.sentence.startswith("one is the cheapest of 3 plans")
    costs = ("99 % confidence", "0.217 GPU-hours (50.0 ms)", "two takes 0.26 GPU-hours (30.0", "four takes 0.347 GPU-")
    assert all(cost in choice.sentence for cost in costs)
    ranking.explain(result, True, choice.trial)
    assert [item.chosen for item in result] == [False, True, False, False]
    assert "prefers" in result[1].reason
    assert result[3].reason.startswith("Faster, but ")


def test_a_plan_that_is_not_shown_to_keep_the_promise_is_not_cheap() -> None:
    for keeps in ("missed", "too_close", "not_enough_samples"):
        assert taken(trials(one=keeps)).trial.label == "two"
    choice = taken(trials(one="missed", two="missed", four="too_close"))
    assert (choice.trial.label, choice.sentence) == ("four", ""), "the fastest, where nothing keeps it"
    assert taken([trial("eager", 500, gate="fail")]) is None


def test_the_fastest_that_is_asked_for_keeps_every_promise_and_says_what_it_costs() -> None:
    choice = taken(trials(), prefer="fastest")
    assert choice.trial.label == "four"
    assert choice.sentence.startswith("four is the fastest of 3 plans")
    assert ", though one is cheaper, " in choice.sentence
    assert "one takes 0.217 GPU-hours" in choice.sentence
    choice = taken(trials(four="missed"), prefer="fastest")
    assert choice.trial.label == "two"
    assert "two is the fastest of 2 plans" in choice.sentence
    dear = [trial("eager", 500, keeps="missed"), trial("two", 30, gpus=2), trial("four", 20, gpus=2, keeps="missed")]
    choice = taken([*dear, trial("slow", 40, gpus=2)], prefer="fastest")
    assert choice.trial.label == "two"
    assert "cheaper" not in choice.sentence


def test_the_cost_is_by_the_rate_and_a_saving_of_two_per_cent_or_less_is_no_reason_against_the_fastest() -> None:
    result = trials()
    result[3].primary = Interval(value=20, low=1, high=20.5)
    assert taken(result).trial.label == "one"
    choice = taken([trial("eager", 500, keeps="missed"), trial("one", 50), trial("two", 25.2, gpus=2)])
    assert (choice.trial.label, choice.sentence) == ("two", "")


def test_a_promise_relative_to_today_is_kept_by_the_ratio_of_the_medians() -> None:
    result = [item.model_copy(update={"keeps": "met"}) for item in trials()]
    relative = {"metric": "ttf_n", "n": 64, "at_least_faster": 12}
    assert taken(result, objective=relative).trial.label == "two"


def test_winners_beat_torch_by_more_than_the_noise():
    registry.variants()
    slow, prompt = candidate("torch_linear", 2.0), GATE_UP.model_copy(update={"m": 16})
    fast = candidate("torch_linear_compiled", 1.0)
    int8 = candidate("int8_dynamic_cpu", 0.5, "int8")
    assert ranking.winners([slow, fast, int8], lossy=False) == [fast]
    assert ranking.winners([slow, fast, int8], lossy=True) == [int8]
    assert ranking.winners([slow, candidate("torch_linear_compiled", 1.99)], lossy=False) == []
    assert ranking.winners([slow, fast.model_copy(update={"gate": "impossible"})], lossy=False) == []
    chosen = slow.model_copy(update={"chosen": True})
    assert ranking.winners([chosen, fast], lossy=False) == [], "the difference lies inside the noise"
    assert ranking.winners([slow, candidate("torch_linear_compiled", 1.0, case=prompt)], lossy=False) == []


def quick(label, value, width=0.01, gate="pass"):
    low, high = value * (1 - width), value * (1 + width)
    primary = Interval(value=value, low=low, high=high) if gate == "pass" else None
    return PlanTrial(label=label, plan={}, primary=primary, gate=gate)


def test_the_best_plan_must_be_better_than_the_noise_whichever_way_is_better():
    tried = [quick("eager", 100), quick("compiled", 50), quick("tuned", 49.5), quick("broken", 1, gate="fail")]
    ranking.explain(tried, True, ranking.fastest(tried, lower_is_better=True))
    assert [item.chosen for item in tried] == [False, True, False, False]
    assert tried[0].reason == "2.00x slower than compiled."
    assert "2.00x faster than eager" in tried[1].reason
    assert "compiled lies inside the noise" in tried[2].reason
    tried = [quick("eager", 100), quick("compiled", 50)]
    ranking.explain(tried, False, ranking.fastest(tried, lower_is_better=False))
    assert tried[0].chosen
    assert tried[0].reason.startswith("The baseline; ")
    assert tried[1].reason == "2.00x slower than eager."


@pytest.mark.parametrize(("value", "width", "chosen"), [(90, 0.2, 1), (98, 0.2, 0), (110, 0.2, 0), (90, 0.01, 1)])
def test_a_plan_inside_the_noise_goes_to_verify_if_its_median_is_better_by_three_per_cent(value, width, chosen):
    tried = [quick("eager", 100, width), quick("compiled", value, width), quick("tuned", 120, width)]
    best = ranking.hopeful(tried, lower_is_better=True)
    assert best is tried[chosen]
    ranking.explain(tried, True, best)
    assert ("verify decides" in tried[1].reason) == (chosen == 1 and width == 0.2)


def test_plans_in_different_precisions_are_never_compared_by_a_ratio():
    tried = [quick("eager", 100), quick("megakernel", 50), quick("megakernel_fp8", 30)]
    for each, options in zip(tried, ({}, {}, {"weights": "fp8"}), strict=True):
        plan = Plan(model_digest="0", gpu="h200", runner="megakernel", options=options)
        each.plan = plan.model_dump()
    tried[2].reason = "Its mean KL divergence is at most 0.001 nats."
    ranking.explain(tried, True, ranking.fastest(tried, lower_is_better=True))
    assert tried[1].reason.startswith("Slower than megakernel_fp8, ")
    assert tried[2].reason.startswith("The best of all, in another precision than eager")
    assert tried[2].reason.endswith("Its mean KL divergence is at most 0.001 nats.")
