"""The plan that is taken: the cheapest that keeps every promise, or the fastest where that is asked for."""

import pytest

from kernels.plan import Plan
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
    return [today, *(each.model_copy(update={"keeps": changes.get(each.label, "met")}) for each in others)]


def taken(found: list[PlanTrial], prefer: str = "cheapest", objective: dict[str, object] = LIMIT):
    workload = Workload.model_validate({"model": "m", "objectives": [objective], "constraints": {"prefer": prefer}})
    return choose_plan(found, workload, "tokens")


def test_the_cheapest_that_keeps_the_promise_is_taken_with_its_alternatives() -> None:
    found = trials()
    choice = taken(found)
    assert choice.trial.label == "one"
    assert cost_of(found[1]) == pytest.approx(1e6 / 3600 / 1280)
    assert choice.sentence == (
        "one is the cheapest of 3 plans that keep every promise, each at 99% confidence, in a quick comparison: takes "
        "0.217 GPU-hours (50.0 ms) for a million tokens; two takes 0.26 GPU-hours (30.0 ms); "
        "four takes 0.347 GPU-hours (20.0 ms)."
    )
    ranking.explain(found, True, choice.trial)
    assert [each.chosen for each in found] == [False, True, False, False]
    assert found[1].reason == "The plan that the workload prefers of those that keep every promise."
    assert found[3].reason == "Faster, but of the plans that keep every promise the workload prefers one."


@pytest.mark.parametrize("keeps", ["missed", "too_close", "not_enough_samples"])
def test_a_plan_that_is_not_shown_to_keep_the_promise_is_not_cheap(keeps: str) -> None:
    assert taken(trials(one=keeps)).trial.label == "two"


def test_where_nothing_keeps_the_promise_the_fastest_is_taken() -> None:
    choice = taken(trials(one="missed", two="missed", four="too_close"))
    assert (choice.trial.label, choice.sentence) == ("four", "")
    assert taken([trial("eager", 500, gate="fail")]) is None


def test_the_workload_may_ask_for_the_fastest_and_hears_what_that_costs() -> None:
    choice = taken(trials(), prefer="fastest")
    assert choice.trial.label == "four"
    wanted = (
        "four is the fastest of 3 plans that keep every promise, each at 99% confidence, which the workload asks for"
    )
    assert choice.sentence.startswith(f"{wanted}, though one is cheaper, in a quick comparison: ")
    assert "one takes 0.217 GPU-hours" in choice.sentence


def test_the_fastest_that_is_asked_for_keeps_every_promise() -> None:
    choice = taken(trials(four="missed"), prefer="fastest")
    assert choice.trial.label == "two"
    assert "two is the fastest of 2 plans" in choice.sentence
    dear = [trial("eager", 500, keeps="missed"), trial("two", 30, gpus=2), trial("four", 20, gpus=2, keeps="missed")]
    choice = taken([*dear, trial("slow", 40, gpus=2)], prefer="fastest")
    assert choice.trial.label == "two"
    assert "cheaper" not in choice.sentence


def test_the_cost_is_by_the_rate_whatever_the_interval_of_the_first_objective() -> None:
    found = trials()
    found[3].primary = Interval(value=20, low=1, high=20.5)
    assert taken(found).trial.label == "one"


def test_a_saving_of_less_than_two_per_cent_is_no_reason_against_the_fastest() -> None:
    found = [trial("eager", 500, keeps="missed"), trial("one", 50), trial("two", 25.2, gpus=2)]
    assert taken(found).trial.label == "two"
    assert taken(found).sentence == ""


def test_a_promise_relative_to_today_is_kept_by_the_ratio_of_the_medians() -> None:
    found = [each.model_copy(update={"keeps": "met"}) for each in trials()]
    relative = {"metric": "ttf_n", "n": 64, "at_least_faster": 12}
    assert taken(found, objective=relative).trial.label == "two"
