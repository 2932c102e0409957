"""Kernels of a layer that predictions count from the code: those of torch's own ops, by its dispatcher on a CPU."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from kernels.measure import forward_pass
from kernels.measure.pass_time import HEAD_NORMS, MIXTURE_KERNELS
from kernels.model import loading
from kernels.model.inputs import forward_inputs, zeros
from kernels.model.loading import skeleton
from kernels.model.model_case import model_case
from kernels.model_files import catalogue
from kernels.runners.sessions import ModuleSession
from tests.kernels.runners.engine_models import CONFIGS, SPARSE, load

WITHOUT = {"view", "_unsafe_view", "expand", "transpose", "t", "slice", "select", "unsqueeze", "permute", "detach"}
WITHOUT |= {"split", "empty", "empty_like", "new_empty", "_local_scalar_dense", "alias", "as_strided", "squeeze"}
"""Calls that launch no kernel."""
TWICE = {"topk", "histc", "cumsum", "_grouped_mm", "masked_fill"}
"""Calls that are two kernels on a GPU, as the kernels of `decode-olmoe.json` show: the best and their order, zeros and
counts, the scan and its state, the sizes of the products and the products, a copy and the masked values."""
SMALL = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "vocab_size": 256}
BERT = SMALL | {"model_type": "bert", "architectures": ["BertModel"]}
VIT = SMALL | {"model_type": "vit", "architectures": ["ViTModel"], "image_size": 32, "patch_size": 8}


class Kernels(TorchDispatchMode):
    """Counts the calls of torch's dispatcher, each as the kernels that it launches on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.name().split("::")[1].split(".")[0]
        self.count += 0 if name in WITHOUT else 2 if name in TWICE else 1
        return function(*args, **(kwargs or {}))


def counted(call: Callable[[], object]) -> int:
    with torch.no_grad(), Kernels() as kernels:
        call()
    return kernels.count


def of_a_layer(passes: Callable[[Any], dict[str, Callable[[], object]]], config: dict[str, Any]) -> dict[str, int]:
    """What a third layer adds to each pass of a model of two."""
    result: Counter[str] = Counter()
    for layers, sign in ((3, 1), (2, -1)):
        model = loading.load(None, config | {"num_hidden_layers": layers}, generated=True, device="cpu")
        for name, call in passes(model).items():
            result[name] += sign * counted(call)
    return dict(result)


def step_and_prompt(model: Any) -> dict[str, Callable[[], object]]:
    model.set_experts_implementation("grouped_mm")  # as on a GPU
    session = ModuleSession(model, 1, 16, 32, lambda function: function)
    return {"prompt": session._prefill, "step": session._step}


@pytest.mark.parametrize("name", ["mixtral-8x7b", "qwen3-30b-a3b"])
def test_a_layer_with_experts_under_cuda_graphs(name: str) -> None:
    config = catalogue.entry(name)[0] | SMALL | {"num_key_value_heads": 2, "moe_intermediate_size": 64}
    result = of_a_layer(step_and_prompt, config)
    norms = HEAD_NORMS["each"]["cuda_graphs"] if name.startswith("qwen3") else (0, 0)
    assert (result["step"], result["prompt"]) == tuple(
        map(sum, zip(MIXTURE_KERNELS["cuda_graphs"], norms, strict=True))
    )


@pytest.mark.parametrize("config", [BERT, VIT])
def test_a_layer_of_an_encoder_under_cuda_graphs(config: dict[str, Any]) -> None:
    def forward(model: Any) -> dict[str, Callable[[], object]]:
        inputs = forward_inputs(model, zeros(model, 2, 16))
        return {"forward": lambda: model(**inputs)}

    assert of_a_layer(forward, config)["forward"] == forward_pass.KERNELS["cuda_graphs"]


@pytest.mark.parametrize("name", ["llama", *SPARSE])
def test_a_models_floor_counts_no_product_that_a_prompt_does_without(name):
    """torch counts the same pass with the head for the last token alone, but all tokens in the last layer."""
    model = load(name)
    if name in SPARSE:
        model.set_experts_implementation("eager")
    with FlopCounterMode(display=False) as flops:
        model(torch.zeros(1, 64, dtype=torch.int64), logits_to_keep=1)
    layers, hidden = model.config.num_hidden_layers, model.config.hidden_size
    attention = 4 * layers * hidden * 64 * 64
    floor = model_case(model, name, "fp32", 1, 64, 1).flops
    assert (1 - 1.2 / layers) * (flops.get_total_flops() - attention) < floor < flops.get_total_flops()


@pytest.mark.parametrize("batch", [1, 8])
def test_a_step_of_a_mixture_reads_at_least_the_experts_of_one_token(batch):
    """Of 8 experts in 3 layers a token has 3, each of 3 · 48 · 64 parameters. Keys and values are the whole model's."""
    config = CONFIGS["qwen3-moe"]
    model = skeleton(config, "bf16")
    every = sum(parameter.numel() for parameter in model.parameters()) - config["vocab_size"] * config["hidden_size"]
    case = model_case(model, "qwen3-moe", "bf16", batch, 32, 8)
    assert case.parameters == every - 3 * 5 * 3 * 48 * 64
    assert case.bytes_per_token == 2 * case.parameters + 2 * 2 * batch * 3 * 2 * 32 * (32 + 8 / 2)


@pytest.mark.parametrize("change", [{"mlp_only_layers": [1]}, {"model_type": "qwen2_moe"}])
def test_a_mixture_whose_parameters_of_a_token_are_not_known_bounds_nothing(change):
    case = model_case(skeleton(CONFIGS["qwen3-moe"] | change, "bf16"), "other", "bf16", 1, 32, 8)
    assert (case.parameters, case.bytes_per_token, case.last_only) == (0, 0, None)
