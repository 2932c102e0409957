"""The price of a plan on several GPUs: each is paid for, and the sentence says whether a token costs more."""

import pytest

from kernels.plan import Plan
from tests.workers.conftest import TINY, manifest
from tests.workers.measuring.test_outcomes import COST, E2E, served
from tests.workers.stages.test_price import BOOK, verified, workload
from workers.cost.fleet import fleet
from workers.documents.measurement import Interval
from workers.documents.money import Demand
from workers.documents.stages import PlanTrial
from workers.documents.workload import Deployment
from workers.measuring.alternation import Alternation
from workers.measuring.outcomes import outcomes_of, speedup
from workers.stages.price import price as price_of


def plan(gpus=1, **options) -> Plan:
    return Plan(model_digest="d", gpu="h100", tensor_parallel_size=gpus, runner="megakernel", options=options)


def trial(made: Plan, rate: float, ms: float) -> PlanTrial:
    found = Interval(value=ms, low=ms, high=ms)
    label = f"megakernel on {made.tensor_parallel_size}"
    return PlanTrial(label=label, plan=made.model_dump(), primary=found, gate="pass", tokens_per_second=rate)


def price(verify, trials=(), **changes):
    return price_of(workload(**changes), BOOK, "h100", verify, manifest(TINY), None, trials)


def on(gpus: int, **given):
    return verified(**given).model_copy(update={"plan": plan(gpus).model_dump()})


def test_two_gpus_cost_two_and_today_costs_one():
    one, two = (price(on(gpus, before="met")) for gpus in (1, 2))
    assert two.lines[0].usd_per_hour == one.lines[0].usd_per_hour == one.lines[1].usd_per_hour == 3
    assert (two.lines[1].usd_per_hour, two.lines[1].gpu) == (6, "2 x NVIDIA H100")
    assert two.lines[1].usd_per_mtok == pytest.approx(2 * one.lines[1].usd_per_mtok)
    assert two.lines[0].usd_per_mtok == one.lines[0].usd_per_mtok
    assert "2 GPUs at $3.00 an hour each." in two.lines[1].note
    assert "on 2 x NVIDIA H100 at $6.00 an hour" in two.sentence
    assert all(b.after == pytest.approx(2 * a.after) for a, b in zip(one.sensitivity, two.sensitivity, strict=True))
    assert all(b.before == a.before for a, b in zip(one.sensitivity, two.sensitivity, strict=True))


def test_the_present_deployment_is_held_against_the_price_of_both():
    present = Deployment(metric="ttf_n", n=64, latency_ms=281, gpu="B200", usd_per_hour=5.92)
    one, two = (price(on(gpus), present=present) for gpus in (1, 2))
    assert two.present_ratio == pytest.approx(one.present_ratio / 2)
    assert "on 2 GPUs 1.01x dearer" in two.sentence


def test_a_fleet_counts_gpus_and_not_servers():
    after = price(on(2)).economics.after
    found = fleet(Demand(users=10, spare=0), after)
    assert (found.gpus.value, after.usd_per_hour) == (20, 6)


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (1500, "Two GPUs keep the promise and cost more per token than one: 1.11 USD a million against 0.833 with"),
        (2500, "Two GPUs keep the promise and cost less per token than one: 0.667 USD a million against 0.833 with"),
    ],
)
def test_it_says_whether_a_token_costs_more_than_on_one(rate, words):
    trials = [trial(plan(), 1000, 120), trial(plan(2), rate, 77)]
    said = price(on(2), trials).sentence
    assert f"{words} megakernel on 1, which does not keep the promise, by the rates" in said
    assert "GPUs keep" not in price(on(1), trials).sentence
    assert "GPUs keep" not in price(on(2), trials[1:]).sentence
    assert "Two GPUs cost" in price(on(2, after="missed"), trials).sentence


def test_a_promised_cost_is_that_of_both_gpus():
    sides = [Alternation(served(80, 20), served(80, 20))]
    (_, cost), ratio = outcomes_of([E2E, COST], sides, 3.6, (1, 2)), speedup(COST, sides, 3.6, (1, 2)).ratio
    assert cost.after == pytest.approx(2 * cost.before)
    assert ratio.value == pytest.approx(0.5)
