"""Logits in float32 arithmetic are those of a float32 copy of the model, and leave the model as it was."""

import copy

import pytest
import torch

from kernels import runners
from kernels.model.layer_by_layer import float32_logits
from kernels.runners import eager
from kernels.runners.eager import Float32Runner
from tests.kernels.runners.engine_models import COMPACT, CONFIGS

IDS = torch.randint(3, 300, (2, 24), generator=torch.Generator().manual_seed(4))
DECODERS = [name for name in CONFIGS if name != "bert"]


@pytest.mark.parametrize("name", DECODERS[::2])
def test_they_are_those_of_a_float32_copy(name: str) -> None:
    """With experts, sliding windows, biases, and an embedding that is the LM head too."""
    model = runners.load(None, CONFIGS[name], seed=7, generated=True, dtype="bf16", device="cpu")
    before = {name: each.clone() for name, each in model.state_dict().items()}
    places = {name: each.data_ptr() for name, each in model.named_parameters()}
    copied = runners.runner("eager", copy.deepcopy(model).float()).logits(IDS)
    logits = Float32Runner(model).logits(IDS)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, copied, atol=1e-5, rtol=1e-5)
    assert {name: each.data_ptr() for name, each in model.named_parameters()} == places
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert (runners.runner("eager", model).logits(IDS).float() - logits).abs().max() > 1e-4


def test_a_large_head_is_cast_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """As near to float64 as without blocks, whichever products the processor's BLAS takes for their sizes."""
    model = runners.load(None, CONFIGS["llama"], seed=7, generated=True, dtype="bf16", device="cpu")
    exact = runners.runner("eager", copy.deepcopy(model).double()).logits(IDS)
    error = (Float32Runner(model).logits(IDS) - exact).abs().max()
    cast = list[int]()
    own = torch.Tensor.float
    monkeypatch.setattr(torch.Tensor, "float", lambda tensor: cast.append(tensor.numel()) or own(tensor))
    monkeypatch.setattr(eager, "MAX_ELEMENTS", 1000)
    assert (Float32Runner(model).logits(IDS) - exact).abs().max() <= 2 * error
    assert max(cast) <= max(1000, IDS.numel() * model.config.hidden_size)
    assert not any("forward" in vars(module) for module in model.modules())


def test_a_model_that_fails_gets_its_weights_back_and_one_without_these_layers_is_refused() -> None:
    model = runners.load(None, CONFIGS["llama"], seed=7, generated=True, dtype="bf16", device="cpu")
    with pytest.raises(IndexError):
        Float32Runner(model).logits(torch.full((1, 4), 10**6))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    with pytest.raises(ValueError, match="no float32 logits layer by layer: model_type 'gpt2' is not one of"):
        float32_logits(CONFIGS["gpt2"], THREE_IDS, CPU)


CPU = torch.device("cpu")
THREE_IDS = torch.randint(3, 300, (3, 24), generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("name", COMPACT)
def test_they_are_the_whole_models(name: str) -> None:
    """With windows shorter than the sequences, experts, biases, and an embedding that is the LM head too."""
    config = CONFIGS[name]
    model = runners.load(None, config, seed=7, generated=True, dtype="fp32", device="cpu")
    logits = float32_logits(config, THREE_IDS, CPU, seed=7)
    torch.testing.assert_close(logits, runners.runner("eager", model).logits(THREE_IDS), atol=1e-5, rtol=1e-5)
    assert (logits - float32_logits(config, THREE_IDS, CPU, seed=8)).abs().max() > 0.1
