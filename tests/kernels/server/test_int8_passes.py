"""int8, int4 and fp8 weights served on a CPU: the variants' own rounding, and references for their kernels."""

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
from kernels.quant.formats import head_precision
from kernels.quant.quantised_matrix import QUANTISERS
from kernels.server.execution import building
from kernels.server.execution.backend import KernelsBackend
from kernels.server.execution.engine import Engine
from kernels.server.execution.served_plans import FP8_VARIANTS, LOWERED, VARIANTS
from kernels.server.execution.server_config import ServerConfig
from kernels.server.execution.sizing import RequestedSize, limits_for
from kernels.server.scheduler.requests import Request
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS
from tests.kernels.runners.engine_models import CONFIGS
from tests.kernels.server.answers import assert_models_answers, run_all
from tests.kernels.test_fp8_checkpoints import CHANNEL, drawn, loaded


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, int]]:
    """The calls of each variant by its rows of x."""
    calls: Counter[tuple[str, int]] = Counter()
    for name in LOWERED:
        real = registry.variant(name)

        def build(case: Any, params: Any, name: str = name) -> Any:
            def call(x: torch.Tensor, w: torch.Tensor, *ends: torch.Tensor, **kwargs: Any) -> torch.Tensor:
                calls[name, getattr(case, "m", len(x))] += 1
                own = dict(zip(("offs",), ends, strict=False)) or {"eps": kwargs.pop("eps", 1e-6)}
                result: torch.Tensor = case.reference({"x": x, "w": w, **own, **kwargs})[0]
                return result

            return call

        monkeypatch.setattr(real, "build", build)

        def pack(case: Any, params: Any, weight: torch.Tensor) -> torch.Tensor:
            return absmax.values(absmax.quantise_absmax(weight.flatten(0, -2), case.weights)).view_as(weight).bfloat16()

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
            own = QUANTISERS[head_precision(weights) if name == "lm_head" else weights](module.weight).values()
            module.weight = torch.nn.Parameter(own, requires_grad=False)
            if weights != "int8":  # as of a checkpoint, whose values all passes have
                model.get_submodule(name).weight.copy_(own)
    shards = tensor_parallel.shard_model(model, [torch.device("cpu")] * ranks).shards if ranks > 1 else [model]
    decoders = [Decoder(shard) for shard in shards]
    limits = limits_for(decoders[0], model.config, RequestedSize(64, 20))
    others = [name for name in VARIANTS if name not in LOWERED]
    own = Engine([KernelsBackend(decoders, GPUS["h200"], limits, exclude=others, weights=weights)])
    requests = [Request(str(index), [index + 1, 7 * index + 3, 5], 3 + index // 5) for index in range(20)]
    run_all(own, requests)
    few = {("skinny_int8", False), (f"skinny_{weights}", False)}
    assert {(name, count > 16) for name, count in rows} == {*few, ("small_gemm_int8", True)}
    assert_models_answers(rounded, requests)


@pytest.mark.parametrize("ranks", [1, 2])
@torch.no_grad()
def test_a_checkpoint_in_fp8_is_served_by_its_own_codes(rows, ranks, tmp_path, monkeypatch, capsys) -> None:
    """By default on one GPU, beside a model of what the codes and scales are in float32."""
    tensors = drawn(tmp_path / "source", CHANNEL, num_hidden_layers=2, head_dim=32)
    model = loaded(tmp_path / "source", tmp_path / "plain")
    exact = copy.deepcopy(model).float()
    for name, codes in tensors.items():
        if codes.dtype == torch.float8_e4m3fn:
            exact.get_parameter(name).copy_(codes.float() * tensors[name.replace("weight", "weight_scale")])
    if ranks > 1:
        config = model.config.to_dict()
        model = tensor_parallel.read(tmp_path / "plain", config, [torch.device("cpu")] * ranks, "bf16")
    monkeypatch.setattr(building, "gpu_of", lambda device: GPUS["h200"])
    others, streamed = [name for name in VARIANTS if name not in LOWERED], list[tuple[str, list[int]]]()

    def beside(model: Any, kernels: Any, batches: list[int], up_to: None, weights: str, *more: Any) -> None:
        streamed.append((weights, batches))

    monkeypatch.setattr(building, "build_megakernel_backend", beside)
    weights = "" if ranks == 1 else "fp8"
    (kernels,) = building.build_backends(model, ServerConfig(RequestedSize(64, 20), weights=weights, exclude=others))
    assert streamed == [("fp8_layers", [1, 2, 4, 8])]
    rows.clear()
    requests = [Request(str(index), [index + 1, 2 * index + 3, 5], 3 + index // 5) for index in range(20)]
    run_all(Engine([kernels]), requests)
    assert {(name, count > 16) for name, count in rows} == {("skinny_fp8", False), ("small_gemm_fp8", True)}
    assert_models_answers(exact, requests)
    log = capsys.readouterr().err
    assert "take weights in fp8 (1 byte each, the LM head in 16 bits), of up to 64 in fp8 where that is faster" in log


@torch.no_grad()
def test_a_checkpoint_in_fp8_is_served_dequantised_where_that_is_excluded_or_not_all_of_it(
    rows, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(building, "gpu_of", lambda device: GPUS["h200"])
    others, size = [name for name in VARIANTS if name not in FP8_VARIANTS], RequestedSize(64, 4)
    drawn(tmp_path / "whole", CHANNEL)
    without_fp8 = ServerConfig(size, exclude=[*others, "megakernel", *FP8_VARIANTS])
    building.build_backends(loaded(tmp_path / "whole", tmp_path / "all"), without_fp8)
    drawn(tmp_path / "source", CHANNEL, left=("lm_head", "down_proj"))
    model = loaded(tmp_path / "source", tmp_path / "plain")
    building.build_backends(model, ServerConfig(size, exclude=[*others, "megakernel"]))
    assert not rows
    with pytest.raises(ValueError, match="fp8 is served of a checkpoint that has each matrix of its layers so"):
        building.build_backends(model, ServerConfig(size, weights="fp8", exclude=others))


@pytest.mark.parametrize(("name", "weights"), [("gpt-oss", "mxfp4"), ("qwen3-moe", "int8")])
@torch.no_grad()
def test_passes_of_few_rows_multiply_by_rounded_experts(rows, name, weights):
    """Of 8 experts with 32 rows each on average; longer passes take the model's own weights. A token goes to all."""
    config = CONFIGS[name] | {"num_experts_per_tok": 8}
    model: Any = runners.load(None, config, seed=1, generated=True, dtype="bf16", device="cpu")
    for layer in model.model.layers:
        own = experts_of(model.config, layer.mlp)
        for w in (own.gate_up, own.down):
            w.copy_(absmax.values(absmax.quantise_absmax(w.flatten(0, 1), weights)).view_as(w))
    decoder = Decoder(model)
    limits = limits_for(decoder, model.config, RequestedSize(64, 4))
    others = [variant for variant in VARIANTS if variant not in LOWERED or "grouped" not in variant]
    own_engine = Engine([KernelsBackend(decoder, GPUS["h200"], limits, exclude=others, weights=weights)])
    requests = [Request(str(index), [*range(index + 1, index + 40)], 3) for index in range(2)]
    run_all(own_engine, requests)
    assert {each for each, _ in rows} == {f"grouped_{weights}"}
    assert max(count for _, count in rows) <= 8 * 32
    assert_models_answers(model, requests)
