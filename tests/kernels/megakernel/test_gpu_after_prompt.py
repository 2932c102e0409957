"""On a GPU: logits behind a prompt that the serving pass has read. Forced decoding alone misses a wrong pass."""

import pytest
import torch

from kernels import runners
from kernels.proof import logit_gate
from tests.kernels.megakernel.on_gpu import FAMILIES, batches_of, models, runner_of
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS

pytestmark = pytest.mark.gpu

PROMPT, BEHIND = 100, 8


def expected_of(model, ids):
    return runners.runner("eager", model).logits(ids).float()


@pytest.mark.parametrize(("family", "batch"), batches_of(1, 3))
def test_logits_behind_a_prompt_are_the_models(family, batch):
    model, exact = models(FAMILIES[family])
    ids = torch.randint(0, 4099, (batch, PROMPT + BEHIND), device="cuda")
    runner = runner_of(model)
    runner.prepare(batch, PROMPT, BEHIND)
    own = runner.after_prompt(ids, PROMPT)
    truth, torchs = (expected_of(each, ids)[:, PROMPT:] for each in (exact, model))
    assert own.shape == truth.shape
    assert (own - truth).norm() <= 1.1 * (torchs - truth).norm()
    assert logit_gate.refusal_after_prompt(runner, ids, PROMPT, torchs, "bf16") is None


def test_a_wrong_prompt_pass_is_refused_though_forced_decoding_is_right(monkeypatch):
    model, _ = models(GPU_CONFIGS["llama"])
    ids = torch.randint(0, 4099, (1, PROMPT + BEHIND), device="cuda")
    runner = runner_of(model)
    runner.prepare(1, PROMPT, BEHIND)
    read = runner._prompts.read

    def overwrites(prompt):
        found = read(prompt)
        runner._machine.values.fill_(10.0)
        return found

    monkeypatch.setattr(runner._prompts, "read", overwrites)
    expected = expected_of(model, ids)
    assert logit_gate.refusal(logit_gate.difference(runner.logits(ids), expected), "bf16") is None
    said = logit_gate.refusal_after_prompt(runner, ids, PROMPT, expected[:, PROMPT:], "bf16")
    print(said)
    assert "Its logits differ from the model's by" in said
