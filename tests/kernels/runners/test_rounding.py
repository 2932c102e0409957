"""The whole decoder rounded before products hold fp8: GPTQ's values stay what they are, norms folded in or not."""

from typing import Any

import pytest
import torch

from kernels import runners
from kernels.model import rounding
from kernels.model.decoder import Decoder
from kernels.model.rounding import Rounding, round_decoder, round_weights, with_folded_norms
from kernels.quant.absmax import quantise_absmax, values
from kernels.runners.kernels_runner import KernelsRunner
from tests.kernels.runners.engine_models import CONFIGS

GPTQ = {"weights": "fp8", "rounding": {"method": "gptq", "sequences": 8, "length": 32}}


def load(seed: int = 3) -> Any:
    """A tiny llama in bf16 whose norms are not ones."""
    model = runners.load(None, CONFIGS["llama"], seed=seed, generated=True, dtype="bf16", device="cpu")
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.copy_(0.5 + torch.rand(parameter.shape, generator=chance))
    return model


def ids_of(model: Any, seed: int) -> torch.Tensor:
    return torch.randint(model.config.vocab_size, (4, 40), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def test_folded_norms_change_nothing_but_their_place_and_what_was_rounded_is_kept() -> None:
    model = load()
    ids = ids_of(model, 1)
    folded = with_folded_norms(Decoder(model))
    assert all(
        bool((norm == 1).all()) for norm in (folded.norm, folded.layers[0].input_norm, folded.layers[0].post_norm)
    )
    result = runners.runner("kernels", model).logits(ids).float()
    runner = KernelsRunner(model)
    runner._compact = lambda: folded  # type: ignore[method-assign]
    difference = (runner.logits(ids).float() - result).norm() / result.norm()
    assert difference < 0.03  # products are rounded once more, to bf16
    compact = with_folded_norms(Decoder(model))
    result = round_weights(model, compact, "fp8", Rounding.model_validate(GPTQ["rounding"]))
    for held in (result.lm_head, *(codes for layer in result.layers for codes in layer.values())):
        weight = held.values()
        assert torch.equal(values(quantise_absmax(weight, "fp8")).bfloat16(), weight)


@torch.no_grad()
def test_gptq_knows_the_inputs_of_folded_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moments are those of the normed inputs before the norm's weight."""
    model = load()
    ids = ids_of(model, 2)
    seen: list[torch.Tensor] = []
    layer = model.model.layers[0]
    hook = layer.input_layernorm.register_forward_hook(lambda module, given, out: seen.append(out))
    model.model(input_ids=ids, use_cache=False)
    hook.remove()
    x = (seen[0].float() / layer.input_layernorm.weight.float()).flatten(0, 1)
    moments, _ = rounding._moments(model, with_folded_norms(Decoder(model)), range(1), ids)
    assert (moments[0, "qkv"] - x.T @ x).norm() / (x.T @ x).norm() < 0.01


@torch.no_grad()
def test_the_runner_serves_the_rounded_values_and_leaves_the_model_alone() -> None:
    """Every op is torch's own here, so that the rounding is all that differs."""
    model = load()
    ids = ids_of(model, 5)
    before = [parameter.clone() for parameter in model.parameters()]
    runner = KernelsRunner(model, GPTQ)
    result = runner.logits(ids).float()
    compact = with_folded_norms(Decoder(model))
    wanted = KernelsRunner(model)
    rounded = round_decoder(compact, round_weights(model, compact, "fp8", Rounding.model_validate(GPTQ["rounding"])))
    wanted._compact = lambda: rounded  # type: ignore[method-assign]
    assert torch.equal(result, wanted.logits(ids).float())
    assert not torch.equal(result, KernelsRunner(model).logits(ids).float())
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))


def test_without_a_rounding_each_variant_rounds_its_own() -> None:
    model = load()
    compact = KernelsRunner(model, {"weights": "fp8"})._compact()
    assert compact.lm_head is model.lm_head.weight
    assert compact.layers[0].o is model.model.layers[0].self_attn.o_proj.weight
