"""Power over time: the mean is weighted by time, and a gap is seen."""

import pytest

from kernels.measure.telemetry import TelemetrySampler, power_record


def test_the_mean_is_weighted_by_time_and_the_longest_gap_is_kept():
    found = power_record([(10.0, 100.0), (11.0, 100.0), (15.0, 300.0)])
    assert found["power_w_mean"] == pytest.approx((100 + 4 * 200) / 5)
    assert found["power_gap_s"] == pytest.approx(4)


@pytest.mark.parametrize("readings", [[], [(1.0, 100.0)]])
def test_fewer_than_two_readings_say_nothing(readings):
    assert power_record(readings) == {"power_w_mean": None, "power_gap_s": None}


def test_power_is_read_between_two_times_where_they_are_given():
    with TelemetrySampler("cpu", interval=60) as telemetry:
        pass
    telemetry._samples = [{"at": float(at), "watts": watts, "mhz": 1.0} for at, watts in enumerate([60, 400, 420, 60])]
    whole, steady = telemetry.summary(), telemetry.summary(1.0, 2.0)
    assert (steady["power_w_mean"], steady["power_w_median"], steady["power_gap_s"]) == (410, 410, 1)
    assert whole["power_w_mean"] < 330
