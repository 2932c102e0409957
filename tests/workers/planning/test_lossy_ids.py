"""The ids that a plan of lower precision served stand beside its own logits, which show what it leaves out."""

from typing import Any

import pytest
import torch

from kernels.engine import Generation
from kernels.engine.eager import EagerRunner
from kernels.plan import Plan
from tests.workers.conftest import stage_input
from workers.measuring.alternation import warm_clients
from workers.measuring.served_model import load
from workers.planning.served_checks import judge_served, of_processes


class SkipsLayer(EagerRunner):
    """Leaves out the last layer where it is timed; its logits are honest."""

    def generate(self, prompt: torch.Tensor, tokens: int, sampling: Any = None) -> Generation:
        layers = self.model.model.layers
        self.model.model.layers = layers[:-1]
        try:
            return super().generate(prompt, tokens, sampling)
        finally:
            self.model.model.layers = layers


@pytest.mark.parametrize(("cheat", "least", "most"), [(EagerRunner, 0, 1e-3), (SkipsLayer, 0.06, 4)])
def test_the_ids_of_a_lossy_plan_stand_beside_its_own_logits(context, cheat, least, most):
    """NVFP4's slack lets a runner without its last layer pass; its own logits show what it leaves out."""
    document = stage_input("verify")
    plain = Plan(model_digest=document.model.digest, gpu="cpu", runner="megakernel", dtype="fp32")
    plan = plain.model_copy(update={"options": {"weights": "nvfp4"}})
    model = load(document, context)
    runner = cheat(model)
    clients = warm_clients(document, runner, 3)
    for _ in range(4):
        clients.serve()
    judged, _ = judge_served(EagerRunner(model), runner, plan, document, clients)
    assert judged.acceptable
    assert least <= judged.own_mean_gap <= most
    assert "By the plan's own logits the mean gap is" in judged.sentence
    both = of_processes([judged, judged])
    assert (both.own_mean_gap, both.own_largest_gap) == (judged.own_mean_gap, judged.own_largest_gap)
    exact, _ = judge_served(EagerRunner(model), runner, plain, document, clients)
    assert exact.own_mean_gap is None
