"""Power over time: the mean is weighted by time, and a gap is seen."""

import pytest

from kernels.measure.environment import power_record


def test_the_mean_is_weighted_by_time_and_the_longest_gap_is_kept():
    found = power_record([(10.0, 100.0), (11.0, 100.0), (15.0, 300.0)])
    assert found["power_w_mean"] == pytest.approx((100 + 4 * 200) / 5)
    assert found["power_gap_s"] == pytest.approx(4)


@pytest.mark.parametrize("readings", [[], [(1.0, 100.0)]])
def test_fewer_than_two_readings_say_nothing(readings):
    assert power_record(readings) == {"power_w_mean": None, "power_gap_s": None}
