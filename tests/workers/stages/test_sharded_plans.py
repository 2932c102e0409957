"""A plan for several GPUs is measured over a model that comes sharded, made where they run, and never whole."""

from types import SimpleNamespace
from typing import Any

import pytest

from kernels import registry, runners
from kernels.measure.latency import ServedBatch
from kernels.model_files import catalogue
from kernels.plan import Plan
from kernels.runners import by_name
from kernels.runners.whole_model import WholeModel
from tests.kernels.runners import sharded_runner
from tests.workers.conftest import composed_with, manifest, plan_of, stage_input
from tests.workers.stages.test_compose import composed, quick
from tests.workers.stages.test_confirmed_plans import slow_runners
from workers.documents.stages import StageInput
from workers.harness.context import Context
from workers.planning import fresh_process, several_gpus
from workers.planning.served_checks import too_fast
from workers.stages import verify

__all__ = ["quick", "slow_runners"]


@pytest.fixture(autouse=True)
def sharded(monkeypatch: pytest.MonkeyPatch, slow_runners: None) -> None:
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", sharded_runner.NAME)


def document_and_plan() -> tuple[StageInput, Plan]:
    document = stage_input("verify", baseline_runner="compiled")
    plan = plan_of(document, runner="megakernel", tensor_parallel_size=2)
    return composed_with(plan, document), plan


def test_verify_and_a_fresh_process_measure_shards_beside_what_runs_today(context: Context) -> None:
    """They answer as the whole model does, by their logits and by the ids that they served."""
    document, plan = document_and_plan()
    result = verify.run(document, context)
    assert result.served_ids.acceptable, result.served_ids.sentence
    assert result.recommended, result.sentence
    assert result.plan["tensor_parallel_size"] == 2
    result = fresh_process.measure(fresh_process.VerifyTask(document=document, plan=plan, pairs=2, seed=4), context)
    assert result.served_ids.acceptable
    assert not result.refusal


def test_the_floor_of_a_plan_sharded_is_that_of_the_whole_model(context: Context) -> None:
    """By its configuration: no GPU holds the model whose bytes would be counted."""
    config, _ = catalogue.entry("llama-3.2-1b")
    document = stage_input("verify", manifest(config)).model_copy(update={"gpu_class": "h200x2"})
    plan = Plan(model_digest="", gpu="h200", tensor_parallel_size=2, runner="megakernel")
    ready: Any = SimpleNamespace(model=None)

    def clients(ms: float) -> Any:
        return SimpleNamespace(kind="decoder", served=[ServedBatch(0, 0, (int(ms * 1e6),), 1, 8)])

    one = too_fast(ready, plan, document, clients(0.5))
    assert one is not None
    assert "19.78 TB/s" in one  # half of eight times 2.47 GB in 0.5 ms
    assert too_fast(ready, plan, document, clients(50)) is None


class OnTwo(WholeModel):
    name, runner_name, most_gpus = "megakernel", "megakernel", 2
    summary = "planted"


def test_compose_gives_a_plan_for_several_gpus_no_ops(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner refuses them there, and takes the usual ones for each rank's sizes."""
    registry.variants()
    monkeypatch.setitem(registry._variants, "megakernel", OnTwo())
    monkeypatch.setattr(several_gpus, "counts", lambda variant, document: [1, 2][: variant.most_gpus])
    monkeypatch.setattr(several_gpus, "refusal", lambda *_: None)  # that the tiny heads do not divide
    seen: dict[int, Plan] = {}
    real = runners.apply

    def noted(model: Any, plan: Plan) -> Any:
        seen[plan.tensor_parallel_size] = plan
        return real(model, plan)

    monkeypatch.setattr(runners, "apply", noted)
    composed(context, [], constraints={"prefer": "fastest"})
    assert seen[1].ops
    assert not seen[2].ops
