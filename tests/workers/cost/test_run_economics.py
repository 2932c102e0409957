"""The unit economics of a run: what it serves at which load, what that costs, and what the price hangs on."""

import pytest
import sample_held_loads
import sample_results

from workers.cost.loads import PriceBreakdown
from workers.cost.run_economics import demand_of, length_factor, run_economics
from workers.documents.prices import Price, PriceBook
from workers.documents.stages import Results
from workers.documents.traffic import Traffic
from workers.documents.workload import LoadSearch, StatedDemand
from workers.stages.price import price
from workers.wording.load_search import curve_of

H200 = Price(gpu_class="h200", name="NVIDIA H200", low=1.8, typical=3.6, high=7.2)
BOOK = PriceBook(name="by hand", date="2026-11-20", source="a test", prices=[H200])


def priced(**changes) -> PriceBreakdown:
    return PriceBreakdown(sample_results.workload().model_copy(update=changes), sample_results.manifest(), BOOK, "h200")


def studied(load=None, asked=None, **changes):
    changes |= {"load": asked} if asked else {}
    return run_economics(priced(**changes), Results(verify=sample_results.verify(), load=load))


def money(load, verify=None):
    known = verify or sample_results.verify()
    return price(sample_results.workload(), BOOK, "h200", known, sample_results.manifest(), load)


def cost(found, key):
    return next(item for item in found.costs if item.key == key)


def test_the_study_agrees_with_the_price_line():
    result = studied()
    output = cost(result, "output-tokens").after
    assert output.value == pytest.approx(3.6 / (64_000 / 81 * 3600) * 1e6)
    assert output.low < output.value < output.high
    assert result.after.load == "one request at a time"
    keys = ["output-tokens", "input-tokens", "all-tokens", "thousand-requests", "conversation-hour"]
    assert [item.key for item in result.costs] == keys
    result = studied(traffic=Traffic(batch=8, concurrency=2))
    assert result.after.users == 16, "clients and batches make the users at once"
    assert cost(result, "conversation-hour").after.value == pytest.approx(3.6 / 16)


def test_what_moves_the_price_is_changed_one_at_a_time_and_lengths_where_ttft_and_tpot_are_known():
    result = studied(duty_cycle=0.5)
    by = {(move.what, move.value): move for move in result.moves}
    low, high = by["price", "$1.80 per GPU-hour"], by["price", "$7.20 per GPU-hour"]
    assert high.after == pytest.approx(4 * low.after)
    assert by["duty cycle", "25 % of the hour"].after == pytest.approx(2 * by["duty cycle", "50 % of the hour"].after)
    result = studied()
    assert not [move for move in result.moves if move.what == "lengths"], "the sample has no TTFT"
    side = result.after.model_copy(update={"ttft_ms": 20.0, "tpot_ms": 2.0})
    assert length_factor(result, side, 128, 64) == pytest.approx(1)
    assert length_factor(result, side, 256, 128) == pytest.approx(0.294 / 0.146)


def test_where_both_sides_were_searched_the_price_stands_at_the_highest_loads_that_hold():
    result = studied(load=sample_held_loads.under_load())
    assert (result.before.users, result.after.users) == (2, 8)
    assert result.after.load == "the highest load that holds, 8 requests at once"
    assert cost(result, "output-tokens").after.value == pytest.approx(3.6 / (4000 * 3600) * 1e6)
    assert cost(result, "input-tokens").after.value == pytest.approx(3.6 / (8000 * 3600) * 1e6)
    assert cost(result, "conversation-hour").before.value == pytest.approx(3.6 / 2)
    assert cost(result, "energy").after.value == pytest.approx(400 / 4000)
    loads = ["one request at a time", "2 requests at once", "8 requests at once"]
    assert [move.value for move in result.moves if move.what == "load"] == loads


def test_without_a_change_today_stands_on_both_sides_at_its_highest_load():
    load = sample_held_loads.under_load().model_copy(update={"after": None})
    today = sample_results.verify().model_copy(update={"recommended": False, "speedup": None})
    result = run_economics(priced(), Results(verify=today, load=load))
    assert (result.before.users, result.after.users) == (2, 2)
    assert result.before.load == "the highest load that holds, 2 requests at once"
    priced_today = money(load, today)
    assert priced_today.lines[0].usd_per_mtok == priced_today.lines[1].usd_per_mtok is not None
    assert priced_today.before_after_ratio is None
    assert "2 requests at once." in priced_today.sentence
    asked = sample_results.workload().model_copy(update={"load": LoadSearch(demand=StatedDemand(users=70))})
    text = demand_of(run_economics(priced(load=asked.load), Results(verify=today, load=load)), asked, None).sentence
    assert text.startswith("To carry 70 users at once it takes 50 GPUs as it runs today, ")


def test_tokens_per_dollar_at_the_loads_that_hold():
    load = sample_held_loads.under_load()
    costs = money(load)
    assert costs.before_after_ratio == pytest.approx(4000 / 400)
    loads = "the highest loads that hold, 2 requests at once before and 8 requests at once after"
    assert f"10.0x the tokens at {loads}." in costs.sentence
    assert costs.loads == loads
    same = sample_held_loads.under_load(before_users=8)
    at_eight = money(same)
    assert at_eight.loads == "the highest load that holds, 8 requests at once"
    assert f"4.44x the tokens at {at_eight.loads}." in at_eight.sentence


def test_after_is_priced_at_its_load_where_before_could_not_be_measured_under_load():
    load = sample_held_loads.under_load().model_copy(update={"before": None})
    costs = money(load)
    before, after = costs.lines[:2]
    assert (before.usd_per_mtok, before.holds_sla) == (None, None)
    assert "not measured under load" in before.note
    assert after.tokens_per_second == 4000
    assert after.note.startswith("At the highest load that holds, 8 requests at once, by after."), "which server it was"
    assert (costs.economics.after.users, costs.economics.before) == (8, None)
    assert costs.before_after_ratio is None
    assert "before is not known" in costs.sentence
    load = sample_held_loads.under_load()
    load.before.server.gpu_class = ""
    costs = money(load)
    assert (costs.lines[0].usd_per_mtok, costs.before_after_ratio) == (None, None), "hardware that is not ours"
    assert "before is not known" in costs.sentence


def test_a_side_that_holds_at_no_load_has_no_price():
    load = sample_held_loads.under_load(before_users=0)
    costs = money(load)
    assert costs.lines[0].usd_per_mtok is None
    assert costs.lines[0].note.startswith("No load ")
    assert costs.before_after_ratio is None
    assert "Before, no load kept the promise." in costs.sentence
    assert costs.loads == costs.load == "the highest load that holds, 8 requests at once"
    assert costs.lines[0].holds_sla is False


def test_a_side_of_which_too_little_is_known_is_not_said_to_miss_the_sla():
    load = sample_held_loads.under_load(before_users=0)
    load.after = load.before.model_copy(deep=True)
    for item in load.after.limit.loads:
        item.verdict = "not_enough_samples"
    after = curve_of(load.after.server, load.after.limit)
    assert "too few requests to say" in after.sentence
    assert "too few requests to say" not in curve_of(load.before.server, load.before.limit).sentence
    costs = money(load)
    assert [line.holds_sla for line in costs.lines[:2]] == [False, None]
    assert costs.sentence.startswith("Not even the lowest load is shown to keep")
    assert "not shown to miss" in costs.lines[1].note
    load.after.limit.loads[-1].verdict = "missed"
    after = curve_of(load.after.server, load.after.limit)
    assert "The lowest, one user, served too few requests to say" in after.sentence
    costs = money(load)
    assert costs.lines[1].holds_sla is None
    load.after.limit.loads[0].verdict = "missed"
    none = money(load)
    assert none.lines[1].holds_sla is False
    assert none.sentence.startswith("No load keeps ")


CARRIED = LoadSearch(demand=StatedDemand(users=100))


def test_a_stated_demand_has_its_gpus_and_its_bill_on_both_sides():
    result = studied(sample_held_loads.under_load(), asked=CARRIED).stated
    assert (result.before.gpus.value, result.after.gpus.value) == (72, 18)  # 100 users, 0.7 of 2 and of 8 on each
    assert result.after.month.value == pytest.approx(18 * 3.6 * 8760 / 12)
    assert "100 users at once it takes 72 GPUs before and 18 GPUs after, with 30 % " in result.sentence
    assert "$189,216 and $47,304 a month" in result.sentence


def test_a_side_on_which_no_load_holds_has_no_gpus():
    result = studied(sample_held_loads.under_load(before_users=0), asked=CARRIED).stated
    assert result.before is None
    assert "100 users at once it takes 18 GPUs after" in result.sentence
    assert "Before, no load is shown to keep every promise. " in result.sentence
    assert "18 GPUs (18 to 19) before and 5 GPUs (4 to 5) after" in result.sentence
    rate = LoadSearch(demand=StatedDemand(requests_per_second=2.5))
    nothing = demand_of(None, sample_results.workload().model_copy(update={"load": rate}), None)
    assert nothing.sentence.startswith("What it takes to carry 2.5 requests per second is not known")
    assert demand_of(None, sample_results.workload(), None) is None
    with pytest.raises(ValueError, match="say how many users there are at once"):
        StatedDemand()
