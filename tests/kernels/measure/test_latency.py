"""Latency metrics and medians have one implementation: a plan that is run again gives the figures of a verdict."""

import time

import pytest
import torch

from kernels import runners
from kernels.cli import run
from kernels.measure import intervals
from kernels.measure.fidelity import fidelity
from kernels.measure.latency import ServedBatch, pool_samples, samples_of
from kernels.plan import Expected
from kernels.runners import Generation, Runner
from tests.kernels.megakernel.sample_model import on_its_text, sample
from tests.kernels.megakernel.tiny_models import with_rounded_weights
from tests.kernels.runners.engine_models import load
from tests.workers.conftest import stage_input
from workers.documents.workload import Objective
from workers.measuring import quality
from workers.stats import intervals as statistics
from workers.stats.sample_sizes import distributions

MS = 1_000_000


def served(intended_ms: float, start_ms: float, *times_ms: float, requests: int = 1) -> ServedBatch:
    times = tuple(int(item * MS) for item in times_ms)
    return ServedBatch(int(intended_ms * MS), int(start_ms * MS), times, requests, len(times))


def test_queueing_counts_from_the_intended_send_time_and_cost_follows_the_tokens():
    late = served(0, 90, 100, 110, 120)
    assert samples_of(late, "ttft") == [100]
    assert samples_of(late, "ttf_n", 2) == [110]
    assert samples_of(late, "e2e") == [120]
    assert samples_of(late, "tpot") == [10]
    assert samples_of(late, "itl") == [10, 10]
    assert samples_of(late, "throughput") == [pytest.approx(100)]
    batch = served(0, 0, 500, 1000, requests=50)
    assert samples_of(batch, "cost_per_mtok", usd_per_hour=3.6) == [pytest.approx(10.0)]
    with pytest.raises(ValueError, match="price"):
        samples_of(batch, "cost_per_mtok")


class Sleeper(Runner):
    """Takes 5 ms per token and nothing of the model but its vocabulary."""

    name = "sleeper"

    def prepare(self, batch: int, prompt: int, tokens: int) -> None:
        pass

    def generate(self, prompt: torch.Tensor, tokens: int, sampling: object = None) -> Generation:
        start, times = time.monotonic_ns(), []
        for _ in range(tokens):
            time.sleep(0.005)
            times.append(time.monotonic_ns())
        return Generation([[0] * tokens] * len(prompt), times, start)

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


def expected(metric: str, n: int | None = None) -> Expected:
    facts = {"unit": "ms", "value": 0, "low": 0, "high": 0, "device": "", "batch": 2, "concurrency": 4}
    return Expected(metric=metric, n=n, prompt_tokens=4, output_tokens=3, **facts)


@pytest.fixture(scope="module")
def requests() -> list[ServedBatch]:
    """Four batches, as `kernels run` has them served."""
    model = load("llama", seed=0)
    return run.serve(Sleeper(model), expected("e2e"), 4)


@pytest.mark.parametrize(
    ("metric", "n"), [("ttft", None), ("ttf_n", 2), ("tpot", None), ("itl", None), ("e2e", None), ("throughput", None)]
)
def test_a_plan_that_is_run_again_and_the_pipeline_give_one_figure(requests, metric: str, n: int | None) -> None:
    own = pool_samples(requests, metric, n)
    objective = Objective(metric=metric, n=n, limit=1, direction="at_least" if metric == "throughput" else "at_most")
    theirs = distributions(stage_input("verify").model, [objective], requests, None)[0]
    assert theirs.samples == own
    middle = statistics.thinned_median_interval(own)
    assert (middle.value, middle.low, middle.high) == intervals.median_interval(own)


def test_a_plan_that_is_run_again_waits_in_line_as_the_pipelines_clients_do(requests) -> None:
    """Four clients in batches of two: each waits for the batch before its own, 15 ms for each."""
    assert len(requests) == 4
    assert {request.requests for request in requests} == {2}
    assert min(pool_samples(requests, "e2e")) >= 2 * 15


@pytest.mark.parametrize(
    ("traffic", "reason"),
    [
        (expected("cost_per_mtok"), "cost_per_mtok needs a price"),
        (expected("ttf_n", 4), "token 4 is none of the 3 output tokens"),
        (expected("itl").model_copy(update={"output_tokens": 1}), "itl needs two output tokens"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_it_is_served(traffic: Expected, reason: str) -> None:
    assert reason in run.refusal(traffic)
    assert run.refusal(expected("ttf_n", 3)) == run.refusal(expected("itl")) == ""


class Spoken:
    """A runner that says what it was told."""

    def __init__(self, probabilities: list[list[float]]) -> None:
        self.spoken = torch.tensor([probabilities]).log()

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        return self.spoken.expand(len(ids), -1, -1)


def test_it_is_the_mean_over_all_tokens() -> None:
    truth, own = Spoken([[0.5, 0.5], [0.8, 0.2]]), Spoken([[0.25, 0.75], [0.2, 0.8]])
    ids = torch.zeros(3, 2, dtype=torch.int64)
    expected = [truth.logits(rows) for rows in ids.split(2)]
    fidelities = fidelity(expected, {"own": own, "truth": truth}, ids, batch=2)  # type: ignore[dict-item]
    kl = torch.tensor([0.5, 0.5, 0.8, 0.2]) * torch.tensor([2.0, 2 / 3, 4.0, 0.25]).log()
    assert fidelities["own"].tokens == 6
    assert fidelities["own"].kl == pytest.approx(float(kl.sum()) / 2, rel=1e-5)
    assert fidelities["own"].disagreement == 1.0
    assert (fidelities["truth"].kl, fidelities["truth"].disagreement) == (0, 0)


def test_the_pipelines_own_measure_says_the_same() -> None:
    own = runners.runner("eager", with_rounded_weights(sample("bf16", "cpu"), "fp8"))
    tokens, (done, _, side) = on_its_text(own, "cpu", 512)
    exact, ids = runners.runner("eager", sample("fp32", "cpu")), tokens.ids[: done // 128]
    fidelities = fidelity(map(exact.logits, ids.split(1)), {"own": own}, ids, 1)["own"]
    assert done == fidelities.tokens == 512
    assert fidelities.kl == pytest.approx(side.mean_kl, rel=1e-6)
    assert fidelities.disagreement == pytest.approx(side.disagreement, rel=1e-12)
    assert done < quality.MIN_TOKENS
