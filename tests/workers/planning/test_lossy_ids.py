"""The ids that a plan of lower precision served are held against its own logits, as narrowly as a plan of bf16."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from kernels.plan import Plan
from kernels.runners import Generation, by_name
from kernels.runners.eager import EagerRunner
from tests.kernels.megakernel.tiny_models import with_rounded_weights
from tests.workers.conftest import TINY, context_of, manifest, plan_of, stage_input
from tests.workers.stages.kinds import EMBEDDER, documents
from workers.documents.stages import StageInput
from workers.harness.context import Context
from workers.measuring.alternation import warm_clients
from workers.measuring.served_model import load
from workers.planning import fresh_process
from workers.planning.served_checks import judge_served
from workers.planning.trials import TrialRunner, TrialTimeouts

CONTRADICTS = "The ids that it served contradict its own logits: over "


class Rounded(EagerRunner):
    """Runs the model with weights of four bits and serves what they give. Stands in for the megakernel."""

    def __init__(self, model: Any, options: Any = None, ops: Any = None) -> None:
        super().__init__(with_rounded_weights(model, "nvfp4").to(model.dtype), options)


class SkipsLayer(Rounded):
    """Leaves out the last layer where it is timed; its logits are honest."""

    def generate(self, prompt: torch.Tensor, tokens: int, sampling: Any = None) -> Generation:
        layers = self.model.model.layers
        self.model.model.layers = layers[:-1]
        try:
            return super().generate(prompt, tokens, sampling)
        finally:
            self.model.model.layers = layers


class Approximates(EagerRunner):
    """Answers a timed request by a fifth less than its output for a comparison, which is honest."""

    def encode(self, ids: torch.Tensor) -> Generation:
        made = super().encode(ids)
        assert made.output is not None
        return replace(made, output=0.8 * made.output)


def nvfp4_plan(document: StageInput) -> Plan:
    return plan_of(document, runner="megakernel", options={"weights": "nvfp4"})


def refusals(
    runner: type[EagerRunner], document: StageInput, context: Context, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """What compose, verify's own process and a further one say against the plan that `runner` serves."""
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", f"{__name__}.{runner.__name__}")
    plan, model = nvfp4_plan(document), load(document, context)
    trial = TrialRunner(document).attempt("planted", plan, lambda: runner(model), TrialTimeouts(60, 0.2), lossy=True)
    served = runner(model)
    clients = warm_clients(document, served, 3, {})
    for _ in range(4):
        clients.serve()
    own_process = judge_served(EagerRunner(model), served, plan, document, clients)[1]
    task = fresh_process.VerifyTask(document=document, plan=plan, pairs=3, seed=3)
    messages = [trial.reason if trial.gate != "pass" else "", own_process, fresh_process.measure(task, context).refusal]
    print(*messages, sep="\n")
    return messages


def test_a_plan_of_lower_precision_is_accepted_unless_it_skips_a_layer_where_it_is_timed(context, monkeypatch):
    """By the model's logits alone that passes as well: NVFP4 explains mean gaps of up to 0.9."""
    config = TINY | {"num_hidden_layers": 2}
    (context.model_dir / "config.json").write_text(json.dumps(config))
    document = stage_input("verify", manifest(config))
    assert refusals(Rounded, document, context, monkeypatch) == ["", "", ""]
    reasons = refusals(SkipsLayer, document, context, monkeypatch)
    assert all(reason.startswith(CONTRADICTS) for reason in reasons)


def test_an_encoder_of_lower_precision_whose_timed_answers_are_not_its_own_is_refused(tmp_path, monkeypatch):
    context, document = context_of(EMBEDDER, tmp_path, 20), documents("verify", EMBEDDER)
    reasons = refusals(Approximates, document, context, monkeypatch)
    assert all("differs from its own output by 20.0 %; rounding explains 1 %" in reason for reason in reasons)
    assert refusals(EagerRunner, document, context, monkeypatch) == ["", "", ""]
