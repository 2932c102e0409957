"""Money, worked by hand."""

import pytest

from tests.workers.conftest import TINY, manifest
from workers.cost.pricing import gpu_price, usd_per_mtok
from workers.documents.measurement import Distribution, Environment, Interval
from workers.documents.prices import Price, PriceBook, default_price_book
from workers.documents.speedup import Speedup
from workers.documents.stages import ObjectiveOutcome, VerifyResult
from workers.documents.traffic import Traffic
from workers.documents.workload import Deployment, Objective, Workload
from workers.stages.price import price as price_of

OBJECTIVE = Objective(metric="ttf_n", n=64, limit=100)
BOOK = PriceBook(
    name="by hand",
    date="2026-11-20",
    source="a test",
    prices=[Price(gpu_class="h100", name="NVIDIA H100", low=2, typical=3, high=6)],
)


def price(*given, counted="tokens", kind="decoder"):
    return price_of(*given, manifest(TINY).model_copy(update={"counted": counted, "kind": kind}))


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
                objective=OBJECTIVE,
                before=before_ms,
                after=after_ms,
                verdict_before=before,
                verdict=after,
                samples=7,
                over=0,
                needed=7,
            )
        ],
        quality=None,
        verdict=after,
        sentence="",
    )


@pytest.mark.parametrize("recommended", [True, False])
def test_only_a_change_has_a_ratio_of_tokens_per_dollar(recommended):
    verify = verified().model_copy(update={"recommended": recommended})
    found = price(workload(traffic=Traffic(batch=8)), BOOK, "h100", verify)
    assert (found.before_after_ratio is not None) == recommended
    assert ("A dollar buys" in found.sentence) == recommended
    assert (found.same_load is not None) == recommended


def test_a_million_tokens_by_hand():
    assert usd_per_mtok(3.60, 1000) == pytest.approx(1.0)
    assert usd_per_mtok(3.60, 1000, duty_cycle=0.25) == pytest.approx(4.0)


def test_281_to_77_ms_is_3_65x_and_7_2x_only_with_the_price_ratio():
    same_price = workload(present=Deployment(metric="ttf_n", n=64, latency_ms=281, gpu="H100", usd_per_hour=3))
    dearer = workload(present=Deployment(metric="ttf_n", n=64, latency_ms=281, gpu="B200", usd_per_hour=5.92))
    assert price(same_price, BOOK, "h100", verified()).present_ratio == pytest.approx(3.65, abs=0.005)
    found = price(dearer, BOOK, "h100", verified())
    assert found.present_ratio == pytest.approx(7.2, abs=0.01)
    assert all(factor in found.sentence for factor in ("3.65x faster", "1.97x cheaper", "together 7.20x"))
    assert "A dollar buys" not in found.sentence


@pytest.mark.parametrize(("batch", "words"), [(1, "one request at a time"), (32, "32 requests at once")])
def test_a_price_says_the_load_that_it_stands_at(batch, words):
    asked = workload(traffic=Traffic(batch=batch))
    found = price(asked, BOOK, "h100", verified(before="met"))
    ratio = f"A dollar buys 3.65x the tokens at {words}."
    assert (ratio in found.sentence) == (found.before_after_ratio is not None) == (batch > 1)
    stands, others = f"These prices stand at {words}", ". Other loads were not measured."
    assert f"{stands}, before as well as after{others}" in found.sentence
    alone = "Their ratio is that of the latencies, so it is no ratio of tokens per dollar."
    assert (alone in found.sentence) == (found.before_after_ratio is None) == (batch == 1)
    one_side = price(asked, BOOK, "h100", verified(before="missed"))
    assert one_side.lines[0].usd_per_mtok is None
    assert f"{stands}{others}" in one_side.sentence
    assert alone not in one_side.sentence
    assert one_side.sentence.startswith("A million output tokens costs ")
    assert f"Promise or not, at {words}: " in one_side.sentence
    assert (one_side.same_load.before.holds, one_side.same_load.after.holds) == (False, True)
    assert one_side.same_load.ratio == pytest.approx(281 / 77)


def test_a_latency_that_says_nothing_of_throughput_gives_no_money():
    first_token = workload(present=Deployment(metric="ttft", latency_ms=40, gpu="B200", usd_per_hour=6))
    result = price(first_token, BOOK, "h100", verified())
    assert result.present_ratio is None
    assert result.lines[2].usd_per_mtok is None
    assert "nothing of the price" in result.lines[2].note


def test_tokens_served_outside_the_sla_have_no_price():
    before, after = price(workload(duty_cycle=0.5), BOOK, "h100", verified()).lines
    assert before.holds_sla is False
    assert before.tokens_per_second is None
    assert before.usd_per_mtok is None
    assert "The promise is missed. Ignoring it: " in before.note
    assert after.usd_per_mtok == pytest.approx(3 / (64 / 0.077 * 3600) * 1e6)
    assert after.usd_per_mtok_at_duty == pytest.approx(2 * after.usd_per_mtok)


def test_an_open_verdict_is_priced_and_says_so():
    result = price(workload(), BOOK, "h100", verified(after="not_enough_samples"))
    line = result.lines[1]
    assert line.holds_sla is None
    assert line.usd_per_mtok is not None
    assert "Too few samples" in line.note
    assert "too few samples" in result.sentence


def test_sensitivity_spans_the_books_prices():
    points = price(workload(), BOOK, "h100", verified(before="met")).sensitivity
    assert (points[0].usd_per_hour, points[-1].usd_per_hour) == (2, 6)
    assert points[-1].after == pytest.approx(3 * points[0].after)
    assert all(point.before / point.after == pytest.approx(281 / 77) for point in points)


def test_a_device_without_a_price_is_modelled_and_never_compared():
    stated = workload(present=Deployment(metric="ttf_n", n=64, latency_ms=281, gpu="B200", usd_per_hour=6))
    result = price(stated, BOOK, "cpu", verified())
    assert result.lines[1].price_basis == "modelled"
    assert result.present_ratio is None
    assert "no price for cpu" in result.sentence


def test_the_default_book_is_dated_and_sourced():
    book = default_price_book()
    assert book.date == "2026-11-20"
    assert book.source
    h100 = gpu_price(book, "h100")
    assert (h100.low, h100.high) == (1.99, 6.16)
    assert all(each.low < each.typical < each.high for each in book.prices)


def test_the_stated_latency_of_a_batch_prices_images_not_tokens():
    present = Deployment(metric="batch_latency", latency_ms=10, gpu="H100", usd_per_hour=3.6)
    stated = workload(present=present, traffic={"prompt_tokens": 128, "output_tokens": 64, "batch": 4})
    line = price(stated, BOOK, "h100", verified(), counted="images", kind="other").lines[2]
    assert line.tokens_per_second == 400
    assert line.usd_per_mtok == pytest.approx(2.5)
    assert "1 of the images a request" in line.note
    assert price(stated, BOOK, "h100", verified(), kind="encoder").lines[2].tokens_per_second == 400 * 128
    assert price(stated, BOOK, "h100", verified()).lines[2].tokens_per_second == 400 * 64
