"""A runner that is fast because it does not run the model is refused, in compose and in verify, by a sentence."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernels import registry
from kernels.engine import Generation, running
from kernels.engine.eager import EagerRunner
from kernels.engine.loading import skeleton
from kernels.engine.whole_model import WholeModel
from kernels.measure.latency import Served
from kernels.model_files import catalogue
from kernels.plan import Plan
from tests.workers.conftest import stage_input
from tests.workers.stages.test_compose import composed
from workers.documents.stages import ComposeResult, VerifyResult
from workers.harness.context import Context
from workers.measuring import alternation
from workers.measuring.conditions import watched
from workers.planning import fresh_process
from workers.planning.served_checks import too_fast
from workers.stages import verify


class ZeroRunner(EagerRunner):
    """Answers a request with zeros at once; its logits are honest. Stands in for the megakernel, which needs a GPU."""

    def __init__(self, model: Any, options: Any = None, ops: Any = None) -> None:
        super().__init__(model, options)

    def generate(self, prompt: torch.Tensor, tokens: int, sampling: Any = None) -> Generation:
        start_ns = time.monotonic_ns()
        return Generation([[0] * tokens] * len(prompt), [start_ns + 1000 * (n + 1) for n in range(tokens)], start_ns)


class WrongPrompts(ZeroRunner):
    """Its logits are honest, and so is what it serves, but behind a prompt it computes something else."""

    generate = EagerRunner.generate

    def after_prompt(self, ids: torch.Tensor, prompt: int) -> torch.Tensor:
        return self.logits(ids.flip(1))[:, prompt:]


class Zeros(WholeModel):
    name, runner_name = "megakernel", "megakernel"
    summary = "planted"


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.variants()
    monkeypatch.setitem(registry._variants, "megakernel", Zeros())
    monkeypatch.setitem(running.RUNNERS, "megakernel", f"{__name__}.ZeroRunner")
    monkeypatch.setattr(alternation, "LEAST_SECONDS", 0.0)


def verified(context: Context, runner: str) -> VerifyResult:
    """Verify of a plan that runs the tiny model by `runner`."""
    document = stage_input("verify")
    plan = Plan(model_digest=document.model.digest, gpu="cpu", runner=runner, dtype="fp32").model_dump()
    with watched(document) as environment:
        pass
    document.results.compose = ComposeResult(environment=environment(), trials=[], plan=plan)
    return verify.run(document, context)


def test_compose_refuses_made_up_ids(context):
    trial = next(each for each in composed(context, []).trials if each.label == "megakernel")
    assert trial.gate == "fail"
    assert "The ids that it served are not the model's" in trial.reason
    assert trial.primary is None
    assert not trial.chosen


def test_compose_judges_logits_behind_the_pass_that_reads_prompts(context, monkeypatch):
    monkeypatch.setitem(running.RUNNERS, "megakernel", f"{__name__}.WrongPrompts")
    trial = next(each for each in composed(context, []).trials if each.label == "megakernel")
    assert trial.gate == "fail"
    said = "It reads prompts by another pass. Behind a prompt of 16 ids: Its logits differ from the model's by "
    assert trial.reason.startswith(said)
    assert not trial.chosen


def test_verify_refuses_made_up_ids(context):
    found = verified(context, "megakernel")
    assert not found.recommended
    assert found.plan["runner"] == "eager"
    assert found.refusal.startswith("The ids that it served are not the model's")
    assert f"The plan is refused. {found.refusal}" in found.sentence


def test_a_further_process_refuses_made_up_ids(context):
    document = stage_input("verify")
    plan = Plan(model_digest=document.model.digest, gpu="cpu", runner="megakernel", dtype="fp32")
    found = fresh_process.measure(fresh_process.VerifyTask(document=document, plan=plan, pairs=2, seed=3), context)
    assert not found.served_ids.acceptable
    assert found.refusal.startswith("The ids that it served are not the model's")


def test_an_honest_plan_has_its_ids_on_record(context):
    found = verified(context, "eager")
    assert found.refusal == ""
    assert found.served_ids is not None
    assert found.served_ids.acceptable
    assert found.served_ids.tokens == 16 * stage_input("verify").workload.traffic.output_tokens


def test_a_request_faster_than_the_memory_can_be_read_is_refused(context):
    """Llama-3.2-1B's 2.47 GB of weights for each of 64 tokens take 33 ms at an H200's 4.8 TB/s."""
    config, _ = catalogue.entry("llama-3.2-1b")
    runner = SimpleNamespace(model=skeleton(config, "bf16"))
    document = stage_input("verify", gpu_class="h200", traffic={"prompt_tokens": 128, "output_tokens": 64})
    plan = Plan(model_digest="a" * 64, gpu="h200", runner="megakernel", dtype="bf16")
    for ms, impossible in ((20, True), (37, False)):
        served = [Served(0, 0, (ms * 1_000_000,), 1, 64)]
        clients = SimpleNamespace(kind="decoder", served=served)
        assert bool(too_fast(runner, plan, document, clients)) == impossible
    rounded = plan.model_copy(update={"options": {"weights": "fp8"}})
    clients = SimpleNamespace(kind="decoder", served=[Served(0, 0, (24_700_000,), 1, 64)])
    assert too_fast(runner, rounded, document, clients) is None
