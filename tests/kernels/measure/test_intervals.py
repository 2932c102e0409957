"""An interval of a percentile encloses the true one about as often as it says."""

import math
import random

import pytest

from kernels.measure.intervals import across_processes, median_interval, percentile_interval


@pytest.mark.parametrize(("count", "p"), [(50, 50), (200, 90), (300, 95), (1000, 99)])
def test_it_encloses_the_true_percentile_95_times_in_100(count, p):
    draws, truth = random.Random(1), -math.log(1 - p / 100)
    inside = 0
    for _ in range(600):
        _, low, high = percentile_interval([draws.expovariate(1) for _ in range(count)], p)
        inside += low <= truth <= high
    assert 0.93 <= inside / 600 <= 0.995


@pytest.mark.parametrize("count", [6, 40, 999, 1001, 5000])
def test_the_interval_of_a_median_is_that_of_the_binomial_whatever_the_count(count):
    """In exact integers: at most 2.5 % of all 2^n outcomes lie on either side, and one rank further in more."""
    _, low, high = median_interval(list(range(count)))
    outcomes, below = 1, [1]
    for rank in range(int(low) + 1):
        outcomes = outcomes * (count - rank) // (rank + 1)
        below.append(below[-1] + outcomes)
    assert high == count - 1 - low
    assert 40 * below[int(low)] <= 2**count < 40 * below[int(low) + 1]


def test_few_samples_end_at_the_last_one():
    assert percentile_interval([1, 2, 3], 99) == (3, 2, 3)
    with pytest.raises(ValueError, match="does not exist"):
        percentile_interval([], 50)
    with pytest.raises(ValueError, match="does not exist"):
        percentile_interval([1.0], 100)


def test_the_spread_between_processes_is_students_and_at_least_the_range():
    middle, low, high = across_processes([1.0, 2.0, 4.0])
    assert middle == pytest.approx(2.0)
    assert high / middle == pytest.approx(math.exp(4.303 * math.log(2) / math.sqrt(3)))
    assert low * high == pytest.approx(middle**2)
    assert across_processes([3.0] * 3) == pytest.approx((3.0, 3.0, 3.0))
    values = [1.0] * 9 + [1.5]
    assert across_processes(values)[1] < 1.0
    assert across_processes(values)[2] == 1.5
    for count in (2, 11):
        with pytest.raises(ValueError, match=f"{count} processes: their spread takes 3 to 10"):
            across_processes([1.0] * count)
