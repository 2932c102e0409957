"""A model that no GPU alone holds goes through all stages over two; the CPU stands for a host of two devices."""

from pathlib import Path
from typing import Any

import pytest

from kernels import registry
from kernels.measure import host_memory
from kernels.runners import by_name
from kernels.runners.whole_model import WholeModel
from tests.kernels.runners import sharded_runner
from tests.workers.conftest import TINY, fixed_ceilings
from tests.workers.stages.kinds import documents
from tests.workers.stages.test_confirmed_plans import SlowRunner, slow_down
from tests.workers.stages.test_kinds import Run, through_all_stages
from workers.documents import gpu_class
from workers.documents.stages import Results
from workers.harness.context import Context
from workers.planning import placements
from workers.stages import profile
from workers.traces.labels import ALL_REDUCE
from workers.wording.provenance import placement_words

CONFIG = TINY | {"hidden_size": 128, "head_dim": 64, "num_attention_heads": 2, "intermediate_size": 2048}
CONFIG["num_hidden_layers"] = 2
MEMORY = 2**30 + 5_000_000
"""Bytes of a device: what a runtime takes, and not all of the model's weights."""


class OnTwo(WholeModel):
    """In place of the megakernel: torch's own ops over the shards."""

    name, runner_name, most_gpus, build_seconds = "megakernel", "megakernel", 2, 0.1
    summary = "planted"


class SlowestSharded(SlowRunner):
    """transformers' `generate`, slower where one process drives the shards of a sharded model, as on GPUs."""

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        if hasattr(self.model, "sharded"):
            self.sleep(2 * self.PAUSE)
        return super().generate(*args, **kwargs)


@pytest.fixture(scope="module")
def run() -> Run:
    with pytest.MonkeyPatch.context() as patch:
        fixed_ceilings(patch)
        slow_down(patch)
        registry.variants()
        patch.setitem(gpu_class.SEVERAL, "cpu", ("cpu", 2))
        patch.setattr(host_memory, "total_bytes", lambda: MEMORY)
        patch.setitem(registry._variants, "megakernel", OnTwo())
        patch.setitem(by_name.RUNNERS, "megakernel", sharded_runner.NAME)
        patch.setitem(by_name.RUNNERS, "eager", f"{__name__}.SlowestSharded")
        traffic = {"prompt_tokens": 28, "output_tokens": 4, "batch": 4}
        promise = {"metric": "batch_latency", "at_least_faster": 1.05}  # it takes no certain number of requests
        return through_all_stages(CONFIG, traffic=traffic, objectives=[promise])


def test_what_runs_today_is_the_faster_of_two_ways_over_both(run: Run) -> None:
    run_results = run.results
    assert run_results.admit.tensor_parallel_size == 2
    baseline = run_results.baseline
    assert (baseline.runner, baseline.placement) == ("eager", "pipeline_parallel")
    assert baseline.placements["tensor_parallel"] > 1.5 * baseline.placements["pipeline_parallel"]
    assert run_results.verify.gpus_before == 2
    graphs = next(trial for trial in run_results.compose.trials if trial.label == "cuda_graphs on 2 GPUs")
    assert "on NVIDIA GPUs only" in graphs.reason
    present = run_results.compose.trials[0]
    assert (present.label, present.plan["tensor_parallel_size"], present.gate) == ("eager", 2, "pass")
    assert present.plan["placement"] == "pipeline_parallel"
    assert "placement" not in run_results.verify.plan
    assert "The faster of two ways counts" in run.report
    rows = {row.op: row for row in run_results.profile.rows if row.phase == "decode"}
    assert rows["linear q_proj"].calls == 2 * 3  # two layers, three steps
    assert ALL_REDUCE not in rows
    assert run_results.explore.candidates == []
    assert "2 GPUs hold the model" in run_results.explore.sentence


def test_a_way_that_leaves_no_memory_for_a_plan_does_not_count(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placements, "_value", lambda *args: {"tensor_parallel": 57.0}.get(args[2], 28.0))
    monkeypatch.setattr(placements, "_has_room", lambda document: False)
    document = documents("baseline", CONFIG, Results(admit=run.results.admit))
    context = Context(tmp_path, tmp_path)
    facts = placements.choose_placement(document, context)
    assert (facts["placement"], facts["no_room"]) == ("tensor_parallel", True)
    assert len(context.shared["model"].sharded.shards) == 2
    baseline = run.results.baseline.model_copy(update=facts)
    words = placement_words(run.results.model_copy(update={"baseline": baseline}))
    assert "it takes 28.0 ms, but then no GPU has memory for a plan beside it" in words


def test_the_profile_of_a_sharded_model_names_what_the_gpus_add_up(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed_ceilings(monkeypatch)
    results = Results(admit=run.results.admit)
    sharded = profile.run(documents("profile", CONFIG, results), Context(tmp_path, tmp_path))
    rows = {(row.op, row.phase) for row in sharded.rows}
    assert {
        (ALL_REDUCE, "prefill"),
        (ALL_REDUCE, "decode"),
        ("linear q_proj", "decode"),
        ("attention", "decode"),
    } <= rows


def test_its_plan_is_confirmed_over_the_same_shards_and_both_sides_pay_for_both_gpus(run: Run) -> None:
    verify = run.results.verify
    assert verify.recommended, verify.sentence
    assert (verify.plan["runner"], verify.gpus) == ("megakernel", 2)
    assert verify.served_ids.acceptable
    assert verify.quality.tokens >= 4096
    assert verify.quality.acceptable
    assert verify.plan["serving"] is not None
    before, after = run.results.price.lines[:2]
    assert before.usd_per_hour == after.usd_per_hour == 2.0
    assert "ran on 2 GPUs, since fewer do not hold the model beside a plan, after on 2 of the same kind." in run.report
