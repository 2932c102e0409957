"""Money, worked by hand; of several GPUs each is paid for."""

import pytest

from kernels.plan import Plan
from tests.workers.conftest import TINY, manifest
from tests.workers.measuring.test_outcomes import COST, E2E, served
from workers.cost.fleet import fleet
from workers.cost.pricing import gpu_price, usd_per_mtok
from workers.documents.measurement import Distribution, Environment, Interval
from workers.documents.money import Demand
from workers.documents.prices import Price, PriceBook, default_price_book
from workers.documents.speedup import Speedup
from workers.documents.stages import ObjectiveOutcome, PlanTrial, VerifyResult
from workers.documents.traffic import Traffic
from workers.documents.workload import Deployment, Objective, Workload
from workers.measuring.alternation import Alternation
from workers.measuring.outcomes import outcomes_of, speedup
from workers.stages.price import price as price_of

OBJECTIVE = Objective(metric="ttf_n", n=64, limit=100)
H100 = Price(gpu_class="h100", name="NVIDIA H100", low=2, typical=3, high=6)
BOOK = PriceBook(name="by hand", date="2026-11-20", source="a test", prices=[H100])


def price(*args, counted="tokens", kind="decoder"):
    return price_of(*args, manifest(TINY).model_copy(update={"counted": counted, "kind": kind}))


def workload(**changes) -> Workload:
    return Workload(model="llama-3.2-1b", objectives=[OBJECTIVE], **changes)


def verified(before_ms=281.0, after_ms=77.0, before="missed", after="met") -> VerifyResult:
    interval = Interval(value=before_ms / after_ms, low=1, high=9)

    def distribution(ms: float) -> Distribution:
        return Distribution(metric="ttf_n", n=64, unit="ms", samples=[ms], percentiles={"p50": ms})

    return VerifyResult(
        environment=Environment(device="NVIDIA H100", gpu_class="h100", versions={}, at="2026-11-20T00:00:00Z"),
        plan={},
        before=[distribution(before_ms)],
        after=[distribution(after_ms)],
        tokens_per_second_before=64 / before_ms * 1000,
        tokens_per_second_after=64 / after_ms * 1000,
        speedup=Speedup(metric="ttf_n", ratio=interval, noise=interval, difference=True),
        outcomes=[
            ObjectiveOutcome(
                objective=OBJECTIVE, before=before_ms, after=after_ms, verdict_before=before, verdict=after, samples=7,
                over=0, needed=7,
            )
        ],
        quality=None,
        verdict=after,
        sentence="",
    )  # fmt: skip


def test_a_million_tokens_by_hand_and_a_ratio_of_tokens_per_dollar_for_a_change_alone():
    assert usd_per_mtok(3.60, 1000) == pytest.approx(1.0)
    assert usd_per_mtok(3.60, 1000, duty_cycle=0.25) == pytest.approx(4.0)
    for recommended in (True, False):
        verify = verified().model_copy(update={"recommended": recommended})
        priced = price(workload(traffic=Traffic(batch=8)), BOOK, "h100", verify)
        assert (priced.before_after_ratio is not None) == recommended
        assert ("A dollar buys" in priced.sentence) == recommended
        assert (priced.same_load is not None) == recommended


def test_281_to_77_ms_is_3_65x_and_7_2x_only_with_the_price_ratio():
    same_price = workload(present=Deployment(metric="ttf_n", n=64, latency_ms=281, gpu="H100", usd_per_hour=3))
    dearer = workload(present=Deployment(metric="ttf_n", n=64, latency_ms=281, gpu="B200", usd_per_hour=5.92))
    assert price(same_price, BOOK, "h100", verified()).present_ratio == pytest.approx(3.65, abs=0.005)
    priced = price(dearer, BOOK, "h100", verified())
    assert priced.present_ratio == pytest.approx(7.2, abs=0.01)
    assert all(factor in priced.sentence for factor in ("3.65x faster", "1.97x cheaper", "together 7.20x"))
    assert "A dollar buys" not in priced.sentence


@pytest.mark.parametrize(("batch", "words"), [(1, "one request at a time"), (32, "32 requests at once")])
def test_a_price_says_the_load_that_it_stands_at(batch, words):
    asked = workload(traffic=Traffic(batch=batch))
    priced = price(asked, BOOK, "h100", verified(before="met"))
    ratio = f"A dollar buys 3.65x the tokens at {words}."
    assert (ratio in priced.sentence) == (priced.before_after_ratio is not None) == (batch > 1)
    assert f"These prices stand at {words}, before as well as after." in priced.sentence
    alone = "it is no ratio of tokens per dollar"
    assert (alone in priced.sentence) == (priced.before_after_ratio is None) == (batch == 1)
    one_side = price(asked, BOOK, "h100", verified(before="missed"))
    assert one_side.lines[0].usd_per_mtok is None
    assert f"These prices stand at {words}." in one_side.sentence
    assert alone not in one_side.sentence
    assert f"Promise or not, at {words}: " in one_side.sentence
    assert (one_side.same_load.before.holds, one_side.same_load.after.holds) == (False, True)
    assert one_side.same_load.ratio == pytest.approx(281 / 77)


def test_a_latency_that_says_nothing_of_throughput_gives_no_money():
    first_token = workload(present=Deployment(metric="ttft", latency_ms=40, gpu="B200", usd_per_hour=6))
    result = price(first_token, BOOK, "h100", verified())
    assert result.present_ratio is None
    assert result.lines[2].usd_per_mtok is None
    assert "nothing of the price" in result.lines[2].note


def test_tokens_served_outside_the_sla_have_no_price_and_an_open_verdict_says_so():
    before, after = price(workload(duty_cycle=0.5), BOOK, "h100", verified()).lines
    assert (before.holds_sla, before.tokens_per_second, before.usd_per_mtok) == (False, None, None)
    assert "The promise is missed" in before.note
    assert after.usd_per_mtok == pytest.approx(3 / (64 / 0.077 * 3600) * 1e6)
    assert after.usd_per_mtok_at_duty == pytest.approx(2 * after.usd_per_mtok)
    result = price(workload(), BOOK, "h100", verified(after="not_enough_samples"))
    line = result.lines[1]
    assert line.holds_sla is None
    assert line.usd_per_mtok is not None
    assert "too few samples" in line.note.lower()
    assert "too few samples" in result.sentence


def test_sensitivity_spans_the_books_prices():
    points = price(workload(), BOOK, "h100", verified(before="met")).sensitivity
    assert (points[0].usd_per_hour, points[-1].usd_per_hour) == (2, 6)
    assert points[-1].after == pytest.approx(3 * points[0].after)
    assert all(point.before / point.after == pytest.approx(281 / 77) for point in points)


def test_a_device_without_a_price_is_modelled_and_never_compared_and_the_default_book_is_dated():
    stated = workload(present=Deployment(metric="ttf_n", n=64, latency_ms=281, gpu="B200", usd_per_hour=6))
    result = price(stated, BOOK, "cpu", verified())
    assert (result.lines[1].price_basis, result.present_ratio) == ("modelled", None)
    assert "no price for cpu" in result.sentence
    book = default_price_book()
    assert book.date == "2026-11-20"
    assert book.source
    h100 = gpu_price(book, "h100")
    assert (h100.low, h100.high) == (1.99, 6.16)
    assert all(item.low < item.typical < item.high for item in book.prices)


def test_the_stated_latency_of_a_batch_prices_images_not_tokens():
    present = Deployment(metric="batch_latency", latency_ms=10, gpu="H100", usd_per_hour=3.6)
    stated = workload(present=present, traffic={"prompt_tokens": 128, "output_tokens": 64, "batch": 4})
    line = price(stated, BOOK, "h100", verified(), counted="images", kind="other").lines[2]
    assert line.tokens_per_second == 400
    assert line.usd_per_mtok == pytest.approx(2.5)
    assert "1 of the images a request" in line.note
    assert price(stated, BOOK, "h100", verified(), kind="encoder").lines[2].tokens_per_second == 400 * 128
    assert price(stated, BOOK, "h100", verified()).lines[2].tokens_per_second == 400 * 64


def plan(gpus=1, **options) -> Plan:
    return Plan(model_digest="d", gpu="h100", tensor_parallel_size=gpus, runner="megakernel", options=options)


def trial(made: Plan, rate: float, ms: float) -> PlanTrial:
    interval = Interval(value=ms, low=ms, high=ms)
    label = f"megakernel on {made.tensor_parallel_size}"
    return PlanTrial(label=label, plan=made.model_dump(), primary=interval, gate="pass", tokens_per_second=rate)


def price_with(verify, trials=(), **changes):
    return price_of(workload(**changes), BOOK, "h100", verify, manifest(TINY), None, trials)


def on(gpus: int, **kwargs):
    return verified(**kwargs).model_copy(update={"plan": plan(gpus).model_dump()})


def test_two_gpus_cost_two_and_today_costs_one():
    one, two = (price_with(on(gpus, before="met")) for gpus in (1, 2))
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
    one, two = (price_with(on(gpus), present=present) for gpus in (1, 2))
    assert two.present_ratio == pytest.approx(one.present_ratio / 2)
    assert "on 2 GPUs 1.01x dearer" in two.sentence


def test_a_fleet_counts_gpus_and_not_servers():
    after = price_with(on(2)).economics.after
    priced = fleet(Demand(users=10, spare=0), after)
    assert (priced.gpus.value, after.usd_per_hour) == (20, 6)


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (1500, "cost more per token than one: 1.11 USD a million against 0.833 with"),
        (2500, "cost less per token than one: 0.667 USD a million against 0.833 with"),
    ],
)
def test_it_says_whether_a_token_costs_more_than_on_one(rate, words):
    trials = [trial(plan(), 1000, 120), trial(plan(2), rate, 77)]
    sentence = price_with(on(2), trials).sentence
    assert "Two GPUs keep the promise" in sentence
    assert f"{words} megakernel on 1, which does not keep the promise" in sentence
    assert "GPUs keep" not in price_with(on(1), trials).sentence
    assert "GPUs keep" not in price_with(on(2), trials[1:]).sentence
    assert "Two GPUs cost" in price_with(on(2, after="missed"), trials).sentence


def test_a_promised_cost_is_that_of_both_gpus():
    sides = [Alternation(served(80, 20), served(80, 20))]
    (_, cost), ratio = outcomes_of([E2E, COST], sides, 3.6, (1, 2)), speedup(COST, sides, 3.6, (1, 2)).ratio
    assert cost.after == pytest.approx(2 * cost.before)
    assert ratio.value == pytest.approx(0.5)
