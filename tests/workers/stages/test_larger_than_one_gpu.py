"""A model that no GPU alone holds goes through all stages: divided over two as it runs today, and as its plan runs.

The CPU stands for a host of two devices, each with less memory than the model takes.
"""

import pytest

from kernels import registry
from kernels.measure import host_memory
from kernels.runners import by_name
from kernels.runners.whole_model import WholeModel
from tests.kernels.runners import parts_runner
from tests.workers.conftest import TINY, fixed_ceilings
from tests.workers.stages.test_confirmed_plans import SlowRunner, slow_down
from tests.workers.stages.test_kinds import Run, through_all_stages
from workers.documents import gpu_class
from workers.traces.labels import EXCHANGE as SUM

CONFIG = TINY | {"hidden_size": 128, "head_dim": 64, "num_attention_heads": 2, "intermediate_size": 2048}
MEMORY = 2**30 + 5_000_000
"""Bytes of a device: what a runtime takes, and not all of the model's weights."""


class OnTwo(WholeModel):
    """In place of the megakernel: torch's own ops over the parts."""

    name, runner_name, most_gpus, build_seconds = "megakernel", "megakernel", 2, 0.1
    summary = "planted"


@pytest.fixture(scope="module")
def run() -> Run:
    with pytest.MonkeyPatch.context() as patch:
        fixed_ceilings(patch)
        slow_down(patch)
        registry.variants()
        patch.setitem(gpu_class.SEVERAL, "cpu", ("cpu", 2))
        patch.setattr(host_memory, "total_bytes", lambda: MEMORY)
        patch.setitem(registry._variants, "megakernel", OnTwo())
        patch.setitem(by_name.RUNNERS, "megakernel", parts_runner.NAME)
        patch.setitem(by_name.RUNNERS, "eager", f"{SlowRunner.__module__}.SlowRunner")
        traffic = {"prompt_tokens": 28, "output_tokens": 4, "batch": 4}
        promise = {"metric": "batch_latency", "at_least_faster": 1.05}  # it takes no certain number of requests
        return through_all_stages(CONFIG, traffic=traffic, objectives=[promise])


def test_what_runs_today_is_divided_over_both(run: Run) -> None:
    run_results = run.results
    assert run_results.admit.tensor_parallel_size == 2
    assert run_results.baseline.runner == "eager"
    assert run_results.verify.gpus_before == 2
    graphs = next(trial for trial in run_results.compose.trials if trial.label == "cuda_graphs on 2 GPUs")
    assert "on NVIDIA GPUs only" in graphs.reason
    present = run_results.compose.trials[0]
    assert (present.label, present.plan["tensor_parallel_size"], present.gate) == ("eager", 2, "pass")


def test_its_profile_names_what_the_gpus_add_up(run: Run) -> None:
    rows = {(row.op, row.phase) for row in run.results.profile.rows}
    assert {(SUM, "prefill"), (SUM, "decode"), ("linear q_proj", "decode"), ("attention", "decode")} <= rows
    assert run.results.explore.candidates == []
    assert run.results.explore.sentence.startswith("Nothing was explored: 2 GPUs hold the model")


def test_its_plan_is_confirmed_over_the_same_parts(run: Run) -> None:
    verify = run.results.verify
    assert verify.recommended, verify.sentence
    assert (verify.plan["runner"], verify.gpus) == ("megakernel", 2)
    assert verify.served_ids.acceptable
    assert verify.quality.tokens >= 4096
    assert verify.quality.acceptable
    assert verify.plan["serving"] is not None


def test_both_sides_pay_for_both_gpus(run: Run) -> None:
    before, after = run.results.price.lines[:2]
    assert before.usd_per_hour == after.usd_per_hour == 2.0
    assert "ran on 2 GPUs, since fewer do not hold the model, after on 2 of the same kind." in run.report
