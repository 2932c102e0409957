"""Unit costs, fleets and energy, worked by hand."""

import pytest

from workers.cost import fleet, unit_costs
from workers.cost.loads import energy_of
from workers.documents.measurement import Interval, Telemetry
from workers.documents.money import Demand, ServedLoad


def interval(value: float, low: float | None = None, high: float | None = None) -> Interval:
    return Interval(value=value, low=low or value, high=high or value)


def load(requests: Interval, users: int = 10, usd: float | None = 2.0) -> ServedLoad:
    served = unit_costs.scale_interval(requests, 64)
    facts = {"load": "", "users": users, "holds": True, "usd_per_hour": usd}
    return ServedLoad(per_second=served, requests_per_second=requests, **facts)


def test_three_prices_of_a_token_are_three_readings_of_one_bill_and_a_faster_end_is_the_cheaper_one():
    result = unit_costs.token_costs(interval(1280), interval(640), 3.6)
    assert result["output-tokens"].value == pytest.approx(1.5625)  # 3.60 USD buy 36,000 requests of 64 tokens
    assert result["input-tokens"].value == pytest.approx(0.78125)
    assert result["all-tokens"].value == pytest.approx(0.520833, abs=1e-6)
    shares = 1 / result["input-tokens"].value + 1 / result["output-tokens"].value
    assert 1 / result["all-tokens"].value == pytest.approx(shares)
    result = unit_costs.cost_per(interval(10, 8, 12.5), 3.6, units=1000)
    assert (result.value, result.low, result.high) == pytest.approx((0.1, 0.08, 0.125))


def test_a_rate_lies_within_what_its_batches_and_processes_spread():
    steady = unit_costs.rate_interval(100, [100.0] * 20)
    assert (steady.low, steady.value, steady.high) == pytest.approx((100, 100, 100))
    uneven = unit_costs.rate_interval(100, [80.0, 125.0] * 10)
    assert uneven.low < 100 < uneven.high
    across = unit_costs.rate_interval(100, [100.0] * 20, medians=[9.0, 10.0, 11.0])
    assert across.low < 100 / 1.1
    assert across.high > 100 * 1.1
    # A longer request is modelled from TTFT and TPOT.
    assert unit_costs.request_seconds(20, 2, (128, 64), 128) == pytest.approx(0.146)  # 20 ms + 63 · 2 ms
    assert unit_costs.request_seconds(20, 2, (256, 128), 128) == pytest.approx(0.294)


def test_a_month_a_year_and_the_fee_by_hand_on_gpus_that_are_filled_to_what_is_not_spare():
    demands = ((100, 10, 0), (100, 10, 0.3), (1, 10, 0.3), (7, 10, 0.3))
    assert [fleet.gpus_needed(*item) for item in demands] == [10, 15, 1, 1]
    demand = Demand(requests_per_second=70, spare=0.3, hours_per_day=12, fee=100_000)
    result = fleet.compare(demand, load(interval(10, 9, 11)), load(interval(50)))
    assert (result.before.gpus.value, result.before.gpus.low, result.before.gpus.high) == (10, 10, 12)
    assert result.after.gpus.value == 2
    assert result.before.month.value == pytest.approx(10 * 2 * 12 * 365 / 12)
    assert result.before.year.value == pytest.approx(10 * 2 * 12 * 365)
    assert result.saved_month.value == pytest.approx(8 * 730)
    assert result.saved_month.high == pytest.approx(10 * 730)
    assert result.break_even_months == pytest.approx(100_000 / 5840)
    assert "10 GPUs (10 to 12) before and 2 GPUs after, with 30 % " in result.sentence
    assert "$100,000 is paid back after 17.1 months." in result.sentence
    nothing = fleet.compare(Demand(users=5, spare=0, fee=1000), load(interval(10)), load(interval(20)))
    assert nothing.break_even_months is None
    assert "never paid back" in nothing.sentence


def test_users_and_a_rate_together_take_the_larger_fleet_and_users_who_pause_are_requests_per_second():
    demand = Demand(users=100, requests_per_second=10, spare=0)
    result = fleet.fleet(demand, load(interval(10)))
    assert result.gpus.value == 10
    assert result.user_month.value == pytest.approx(10 * 2 * 24 * 365 / 12 / 100)
    result = fleet.fleet(Demand(users=300, cycle_s=10, spare=0), load(interval(10), users=1))
    assert result.gpus.value == 3
    assert result.thousand_requests.value == pytest.approx(3 * 2.0 / 3600 / 30 * 1000)


def test_a_demand_without_a_number_and_hardware_without_a_price_have_no_bill():
    with pytest.raises(ValueError, match="how many users"):
        fleet.fleet(Demand(), load(interval(10)))
    with pytest.raises(ValueError, match="no price of an hour"):
        fleet.fleet(Demand(users=5), load(interval(10), usd=None))


def test_energy_of_a_token_is_the_mean_power_by_the_rate_where_it_counts():
    energy = energy_of(Telemetry(power_w_mean=350, power_gap_s=0.1), 1000)
    assert (energy.joules, energy.reason) == (pytest.approx(0.35), "")
    for seen, reason in (
        (Telemetry(), "no power"),
        (Telemetry(power_w_mean=350, power_gap_s=3.5), "not read for 3.5 s, and more than 3 s"),
        (Telemetry(power_w_mean=350, power_gap_s=0.1, others_gpu_count=1, others_gpu_seconds=2), "Another program"),
    ):
        energy = energy_of(seen, 1000)
        assert energy.joules is None
        assert reason in energy.reason
