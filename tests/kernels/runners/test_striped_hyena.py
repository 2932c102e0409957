"""The decoder of long convolutions: the convolution, a decode step, every runner, a plan's variant in its place."""

from typing import Any

import pytest
import torch

from kernels import runners
from kernels.model.striped_hyena import LongConvolution, ShortConvolution, StripedHyenaConfig
from kernels.model_files import catalogue
from kernels.plan import Plan, PlannedOp

CONFIG = catalogue.entry("tiny-striped-hyena")[0] | {"num_hidden_layers": 2, "attn_layer_idxs": [1]}
PROMPT, TOKENS = 40, 3


def loaded() -> Any:
    return runners.load(None, CONFIG, generated=True, dtype="fp32", device="cpu")


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    return torch.randint(CONFIG["vocab_size"], (2, PROMPT), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def whole(ids: torch.Tensor) -> torch.Tensor:
    """Logits of the prompts and of the greedy tokens behind them, without a cache."""
    model, grown = loaded(), ids
    with torch.no_grad():
        for _ in range(TOKENS):
            logits = model(grown, use_cache=False).logits
            grown = torch.cat([grown, logits[:, -1:].argmax(-1)], dim=1)
    return logits


def test_the_convolution_is_the_sum_that_defines_it() -> None:
    length, module = 20, LongConvolution(StripedHyenaConfig(hidden_size=3, num_attention_heads=1, state_size=4))
    module.requires_grad_(False)
    generator = torch.Generator().manual_seed(2)
    for parameter in module.parameters():
        parameter.normal_(generator=generator)
    u, w_pre, w_post = torch.randn(3, 2, 3, length, generator=generator)
    taps = module.taps(length)
    spread = CONFIG["max_position_embeddings"] ** -(torch.arange(4) / 3)
    rates = module.log_rates.exp() * spread
    modes = module.residues * (2 * rates).sqrt() * torch.exp(-rates * 7)
    torch.testing.assert_close(taps[:, 7], modes.sum(1))
    torch.testing.assert_close(taps[:, 0], (module.residues * (2 * rates).sqrt()).sum(1) + module.bias)
    summed = torch.zeros_like(u)
    for n in range(length):
        for m in range(n + 1):
            summed[..., n] += taps[:, m] * (u * w_pre)[..., n - m]
    torch.testing.assert_close(module(u, w_pre, w_post), summed * w_post, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(module.last((u * w_pre).mT, torch.tensor([12])), summed[..., 12], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "options"), [("eager", {}), ("compiled", {"compile": False}), ("kernels", {})])
def test_every_runner_gives_the_tokens_of_the_model_without_a_cache(name, options, ids, whole):
    runner = runners.runner(name, loaded(), options)
    runner.prepare(2, PROMPT, TOKENS)
    generated = runner.generate(ids, TOKENS)
    assert torch.tensor(generated.tokens).equal(whole[:, PROMPT - 1 :].argmax(-1))
    torch.testing.assert_close(runner.logits(ids), whole[:, :PROMPT], rtol=1e-4, atol=1e-4)


def test_a_plans_variant_computes_its_long_convolutions(ids, whole, monkeypatch):
    """Also of another length than the planned one, and never of another width."""
    model = loaded()
    mixer = model.model.layers[0].mixer
    cases = mixer.long_filter.case(torch.empty(2, 128, 64)), mixer.short_filter.case(torch.empty(2, 384, 64))
    ops = [PlannedOp(op="fft_conv", case=case.model_dump(), variant="torch_fft") for case in cases]
    runner = runners.apply(model, Plan(model_digest="", gpu="cpu", runner="eager", dtype="fp32", ops=ops))
    for module in (LongConvolution, ShortConvolution):
        monkeypatch.setattr(module, "forward", None)
    torch.testing.assert_close(runner.logits(ids), whole[:, :PROMPT], rtol=1e-4, atol=1e-4)
    other = [ops[0].model_copy(update={"case": ops[0].case | {"width": 64}})]
    monkeypatch.undo()
    called: list[None] = []
    original = LongConvolution.forward
    monkeypatch.setattr(LongConvolution, "forward", lambda *each: called.append(None) or original(*each))
    runners.apply(loaded(), Plan(model_digest="", gpu="cpu", runner="eager", dtype="fp32", ops=other)).logits(ids)
    assert len(called) == 1
