"""int8 and int4 weights served on a CPU: the variants' own rounding, the op's reference in place of their kernels."""

import copy
from collections import Counter
from typing import Any

import pytest
import torch

from kernels import registry, runners
from kernels.hardware import GPUS
from kernels.model import tensor_parallel
from kernels.model.decoder import Decoder
from kernels.model.experts import experts_of
from kernels.quant import absmax
from kernels.quant.formats import of_head
from kernels.quant.quantised_matrix import QUANTISERS
from kernels.server.execution.backend import KernelsBackend
from kernels.server.execution.engine import Engine
from kernels.server.execution.served_plans import LOWERED, VARIANTS
from kernels.server.execution.sizing import RequestedSize, limits_for
from kernels.server.scheduler.requests import Request
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS
from tests.kernels.runners.engine_models import CONFIGS
from tests.kernels.server.answers import assert_models_answers, run_all


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, int]]:
    """The calls of each variant by its rows of x."""
    calls: Counter[tuple[str, int]] = Counter()
    for name in LOWERED:
        real = registry.variant(name)

        def build(case: Any, params: Any, name: str = name) -> Any:
            def call(x: torch.Tensor, w: torch.Tensor, *ends: torch.Tensor, **more: Any) -> torch.Tensor:
                calls[name, getattr(case, "m", len(x))] += 1
                own = dict(zip(("offs",), ends, strict=False)) or {"eps": more.pop("eps", 1e-6)}
                found: torch.Tensor = case.reference({"x": x, "w": w, **own, **more})[0]
                return found

            return call

        monkeypatch.setattr(real, "build", build)

        def pack(case: Any, params: Any, weight: torch.Tensor) -> torch.Tensor:
            return absmax.values(absmax.quantised(weight.flatten(0, -2), case.weights)).view_as(weight).bfloat16()

        monkeypatch.setattr(real, "pack", pack)
    return calls


@pytest.mark.parametrize(("weights", "ranks"), [("int8", 1), ("int4_minimum", 1), ("int8", 2)])
@torch.no_grad()
def test_passes_of_few_rows_multiply_by_the_rounded_weights(rows, weights, ranks):
    """Norms of ones are not folded into the matrices, which would be rounded as other ones."""
    model: Any = runners.load(None, GPU_CONFIGS["llama"], seed=1, generated=True, dtype="bf16", device="cpu")
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.fill_(1)
    rounded = copy.deepcopy(model)
    for name, module in rounded.named_modules():
        if isinstance(module, torch.nn.Linear):
            own = QUANTISERS[of_head(weights) if name == "lm_head" else weights](module.weight).values()
            module.weight = torch.nn.Parameter(own, requires_grad=False)
            if weights != "int8":  # as of a checkpoint, whose values all passes have
                model.get_submodule(name).weight.copy_(own)
    shards = tensor_parallel.shard_model(model, [torch.device("cpu")] * ranks).shards if ranks > 1 else [model]
    decoders = [Decoder(shard) for shard in shards]
    limits = limits_for(decoders[0], model.config, RequestedSize(64, 20))
    others = [name for name in VARIANTS if name not in LOWERED]
    own = Engine([KernelsBackend(decoders, GPUS["h200"], limits, exclude=others, weights=weights)])
    requests = [Request(str(each), [each + 1, 7 * each + 3, 5], 3 + each // 5) for each in range(20)]
    run_all(own, requests)
    few = {("skinny_int8", False), (f"skinny_{weights}", False)}
    assert {(name, count > 16) for name, count in rows} == {*few, ("small_gemm_int8", True)}
    assert_models_answers(rounded, requests)


@pytest.mark.parametrize(("name", "weights"), [("gpt-oss", "mxfp4"), ("qwen3-moe", "int8")])
@torch.no_grad()
def test_passes_of_few_rows_multiply_by_rounded_experts(rows, name, weights):
    """Of 8 experts with 32 rows each on average; longer passes take the model's own weights. A token goes to all."""
    config = CONFIGS[name] | {"num_experts_per_tok": 8}
    model: Any = runners.load(None, config, seed=1, generated=True, dtype="bf16", device="cpu")
    for layer in model.model.layers:
        own = experts_of(model.config, layer.mlp)
        for w in (own.gate_up, own.down):
            w.copy_(absmax.values(absmax.quantised(w.flatten(0, 1), weights)).view_as(w))
    decoder = Decoder(model)
    limits = limits_for(decoder, model.config, RequestedSize(64, 4))
    others = [each for each in VARIANTS if each not in LOWERED or "grouped" not in each]
    own_engine = Engine([KernelsBackend(decoder, GPUS["h200"], limits, exclude=others, weights=weights)])
    requests = [Request(str(each), [*range(each + 1, each + 40)], 3) for each in range(2)]
    run_all(own_engine, requests)
    assert {each for each, _ in rows} == {f"grouped_{weights}"}
    assert max(count for _, count in rows) <= 8 * 32
    assert_models_answers(model, requests)
