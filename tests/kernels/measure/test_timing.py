"""Timing: intervals, interleaving, stopping, cold caches; and what is too good to be true."""

import math
import random
from functools import partial

import pytest
import torch

from kernels.hardware import GPUS
from kernels.measure.intervals import across_processes, median_interval, percentile_interval
from kernels.measure.roofline import exceeds_peak, floor_ms
from kernels.measure.timing import SETTLED_SAMPLES, CudaTimer, StoppingRule, host_us, time_interleaved, time_settled
from kernels.ops import AttentionCase, LinearCase

CPU = torch.device("cpu")


def test_intervals_are_of_order_statistics_and_few_samples_end_at_the_last_one():
    samples = [float(value) for value in range(1, 101)]
    random.Random(1).shuffle(samples)
    assert median_interval(samples) == (50.5, 40.0, 61.0)
    assert median_interval([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)
    assert percentile_interval([1, 2, 3], 99) == (3, 2, 3)
    with pytest.raises(ValueError, match="does not exist"):
        percentile_interval([], 50)
    with pytest.raises(ValueError, match="does not exist"):
        percentile_interval([1.0], 100)


class Script:
    """A timer that plays back times by call and remembers the order of the calls."""

    def __init__(self, times):
        self.times, self.order = times, []

    def __call__(self, call, watch=None):
        self.order.append(call())
        return self.times[self.order[-1]](len(self.order))


def test_calls_are_interleaved_and_stop_when_the_intervals_are_narrow():
    script = Script({"a": lambda _: 1.0, "b": lambda _: 2.0})
    result = time_interleaved({"a": lambda: "a", "b": lambda: "b"}, CPU, StoppingRule(least=10, seconds=60), script)
    assert (result["a"].ms, result["b"].ms) == (1.0, 2.0)
    assert result["a"].samples == result["b"].samples == 10
    assert result["a"].settled
    pairs = [set(script.order[at : at + 2]) for at in range(0, len(script.order), 2)]
    assert all(pair == {"a", "b"} for pair in pairs)
    assert script.order[:2] * 10 != script.order


def test_noisy_calls_use_up_the_rounds_or_the_budget():
    script = Script({"a": lambda count: 1.0 + count % 7})
    result = time_interleaved({"a": lambda: "a"}, CPU, StoppingRule(most=40, seconds=60), script)["a"]
    assert result.samples == 40
    assert not result.settled
    assert result.low < result.ms < result.high
    script = Script({"a": lambda count: float(count)})
    assert time_interleaved({"a": lambda: "a"}, CPU, StoppingRule(seconds=0.0), script)["a"].samples == 3


def test_real_times_are_ordered_as_the_work_is():
    small, large = torch.randn(64, 64), torch.randn(1024, 1024)
    result = time_interleaved(
        {"small": lambda: small @ small, "large": lambda: large @ large}, CPU, StoppingRule(seconds=0.5)
    )
    assert result["small"].ms < result["large"].ms


def test_faster_than_the_chip_or_its_memory_or_ten_times_the_ceilings_is_impossible():
    case, h200 = LinearCase(m=8192, n=8192, k=8192), GPUS["h200"]
    limit_ms = case.flops / 1071e9
    assert not exceeds_peak(case, 1.01 * limit_ms, h200)
    assert "1071" in exceeds_peak(case, 0.98 * limit_ms, h200)
    fp8 = case.model_copy(update={"weights": "fp8"})
    assert not exceeds_peak(fp8, 0.6 * limit_ms, h200)
    assert exceeds_peak(fp8, 0.49 * limit_ms, h200)
    case, h200 = LinearCase(m=1, n=8192, k=8192), GPUS["h200"]
    limit_ms = case.least_bytes / 4.8e9
    assert not exceeds_peak(case, 1.01 * limit_ms, h200)
    assert "TB/s" in exceeds_peak(case, 0.98 * limit_ms, h200)
    assert exceeds_peak(case, 0.0, h200)
    case = LinearCase(m=1, n=1024, k=1024, dtype="fp32", weights="fp32")
    ceilings = {"read_tbps": 0.01, "copy_tbps": 0.01, "matrix_tflops": {"fp32": 0.1}}
    assert not exceeds_peak(case, case.least_bytes / 0.09e9, GPUS["cpu"], ceilings)
    assert exceeds_peak(case, case.least_bytes / 0.11e9, GPUS["cpu"], ceilings)
    assert not exceeds_peak(case, 1e-9, GPUS["cpu"])


def test_a_window_lowers_what_cannot_be_avoided():
    case = AttentionCase(kind="prefill", head_dim=64, heads=1, kv_heads=1, batch=1, q_len=100, kv_len=100, window=10)
    assert case.unavoidable_flops == 4 * 64 * (100 * 10 - 45)
    full = case.model_copy(update={"window": None})
    assert full.unavoidable_flops == 4 * 64 * 5050
    decode = case.model_copy(update={"q_len": 1, "kind": "decode"})
    assert decode.unavoidable_bytes == 2 * 64 * 2 + 2 * 10 * 64 * 2


@pytest.mark.parametrize(("m", "bound"), [(1, "bytes"), (4096, "flops")])
def test_floor_is_the_larger_of_both_times(m, bound):
    case = LinearCase(m=m, n=4096, k=4096)
    ceilings = {"read_tbps": 4.0, "copy_tbps": 4.0, "matrix_tflops": {"bf16": 600.0}}
    expected = case.least_bytes / 4e9 if bound == "bytes" else case.flops / 600e9
    assert floor_ms(case, ceilings) == pytest.approx(expected)


@pytest.mark.gpu
def test_gpu_times_are_cold_and_without_host_gaps():
    x = torch.randn(8 << 20, device="cuda")  # 32 MB: lies in the L2 when warm
    result = time_interleaved({"read": lambda: x.sum(), "many": lambda: [x[:8].add(1) for _ in range(20)]}, "cuda")
    assert 4 * x.numel() / result["read"].ms / 1e9 < 4.8
    assert result["many"].ms < 20 * 0.02


def test_a_cpu_has_no_settled_time_and_none_of_its_own_beside_the_call():
    assert host_us(lambda: None, torch.device("cpu")) is None
    assert time_settled(lambda: None, CPU) is None


def test_a_settled_time_is_taken_between_calls_without_a_pause():
    """A sample of 4 ms takes five calls for 20 ms of work before it; the first one tells how many."""
    calls, samples = [], iter([4.0, *range(1, SETTLED_SAMPLES + 1)])

    def timer(call, watch=None):
        call()
        calls.append("timed")
        return next(samples)

    def call():
        assert not torch.is_grad_enabled(), "what Inductor compiled without gradients would be compiled again"
        calls.append("call")

    result = time_settled(call, CPU, timer)
    assert (result.ms, result.samples) == ((1 + SETTLED_SAMPLES) / 2, SETTLED_SAMPLES)
    assert result.low < result.ms < result.high
    assert calls[-7:] == ["call"] * 6 + ["timed"]
    assert calls.count("timed") == 1 + SETTLED_SAMPLES
    assert calls.count("call") > 1 + 6 * SETTLED_SAMPLES, "the clocks settle before the first sample"


@pytest.mark.gpu
def test_a_settled_time_is_about_that_of_single_calls():
    """Of a kernel that only waits: no clock that power holds down makes it slower by more than half."""
    device, wait = torch.device("cuda"), partial(torch.cuda._sleep, 1_000_000)
    result, alone = time_settled(wait, device).ms, CudaTimer(device)(wait)
    assert 0.9 * alone < result < 1.5 * alone


@pytest.mark.gpu
def test_the_hosts_time_is_that_of_the_call_not_of_the_kernel():
    """A kernel of 1 ms, again and again: the host is done long before."""
    cycles = 1_000_000
    spent = host_us(lambda: torch.cuda._sleep(cycles), torch.device("cuda"), calls=50)
    assert 0.5 < spent < 200


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
