"""Mixtures of experts in the megakernel, on a GPU."""

import pytest
import torch

from kernels import runners
from kernels.ops.sampling import Sampling
from tests.kernels.megakernel.on_gpu import PROMPT, assert_one_answer, models, runner_of
from tests.kernels.megakernel.sample_model import kl_blocks
from tests.kernels.megakernel.tiny_models import GPU_MIXTURES, round_experts
from tests.kernels.megakernel.touched import undeclared
from workers.measuring import quality, texts

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("family", GPU_MIXTURES)
def test_instructions_touch_what_they_declare(family):
    wide = {"sliding_window": 4096} if family == "gpt_oss" else {}  # all layers have as many splits
    model, _ = models(GPU_MIXTURES[family] | wide)
    runner = runner_of(model, tuning={"debug": True})
    for prompt in (PROMPT, 300):
        runner.generate(torch.ones(1, prompt, dtype=torch.int64, device="cuda"), 8)
        assert not undeclared(runner._machine, prompt + 8)[:3]


@pytest.mark.parametrize("batch", [1, 2, 5, 8])
@pytest.mark.parametrize("family", GPU_MIXTURES)
def test_it_is_as_near_to_float32_as_torch(family, batch):
    """Another choice of a router that rounding tipped costs much of a few tokens: the means of all are compared."""
    model, exact = models(GPU_MIXTURES[family])
    check_fidelity(family, model, exact, runner_of(model), batch)


def check_fidelity(family, model, exact, runner, batch):
    """The runner's logits of `batch` prompts at once lose no more than torch's in bf16."""
    runner.prepare(batch, 1, 128)
    tokens = texts.random(model.config.vocab_size, 128, quality.MIN_TOKENS)
    reference, torchs = (runners.runner("eager", value) for value in (exact, model))
    _, before, own = quality.compare(reference, torchs, runner, tokens, batch, lambda _: True)
    mean, torchs_mean = kl_blocks(own).mean(), kl_blocks(before).mean()
    print(f"{family}, batch {batch}: KL of torch {torchs_mean:.2g} and own {mean:.2g}; other tokens "
          f"{before.disagreement:.4f} and {own.disagreement:.4f}")  # fmt: skip
    assert not own.non_finite
    assert mean <= 1.1 * torchs_mean


@pytest.mark.parametrize(("batch", "room"), [(1, 128), (1, 1024), (4, 1024)])
def test_sinks_and_biases_that_decide_are_as_near_to_float32_as_torchs(batch, room):
    """Sinks about as large as the best scores, biases as large as what they are added to; OUT attends, or splits do."""
    model, exact = models(GPU_MIXTURES["gpt_oss"])
    chance = torch.Generator("cuda").manual_seed(5)
    with torch.no_grad():
        for (name, own), other in zip(model.named_parameters(), exact.parameters(), strict=True):
            if name.endswith(("bias", "sinks")):
                own.normal_(3.0 if name.endswith("sinks") else 0.0, 1.0, generator=chance)
                other.copy_(own)
    runner = runner_of(model)
    runner.prepare(batch, room, 1)
    assert bool(runner.program.layout.splits) == (batch > 1 or room > 384)
    check_fidelity("gpt_oss", model, exact, runner, batch)


@pytest.mark.parametrize("batch", [1, 2, 3, 8])
def test_with_experts_in_mxfp4_it_is_as_near_to_the_rounded_model_as_torch(batch):
    """A wrong code or scale costs far more than bf16's arithmetic."""
    model, exact = models(GPU_MIXTURES["gpt_oss"])
    round_experts(model, exact)
    check_fidelity("gpt_oss in mxfp4", model, exact, runner_of(model, weights="mxfp4"), batch)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize(
    ("family", "weights"), [*((mixture, "bf16") for mixture in GPU_MIXTURES), ("gpt_oss", "mxfp4")]
)
def test_generations_give_one_answer(family, weights, batch):
    """Behind the same prompt, which the kernels runner's pass reads; greedy and drawn alternately."""
    runner = runner_of(models(GPU_MIXTURES[family])[0], weights=weights)
    prompt = torch.randint(0, 4099, (batch, PROMPT), device="cuda")
    assert_one_answer(runner, prompt, 32, 500, [None, Sampling(1.0, top_k=200, top_p=0.95, seed=1)])
