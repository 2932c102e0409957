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
from kernels.proof.logit_gate import LARGEST_DIFFERENCE
from kernels.proof.served_ids import logit_gaps
from kernels.quant.formats import of_head
from kernels.quant.quantised_matrix import QUANTISERS
from kernels.server.execution.backend import KernelsBackend
from kernels.server.execution.engine import Engine
from kernels.server.execution.excluded import VARIANTS
from kernels.server.execution.served_plans import INTEGERS
from kernels.server.execution.sizing import RequestedSize, limits_for
from kernels.server.scheduler.requests import Request
from tests.kernels.megakernel.tiny_models import GPU_CONFIGS


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, int]]:
    """The calls of each variant by its rows of x."""
    calls: Counter[tuple[str, int]] = Counter()
    for name in INTEGERS:
        real = registry.variant(name)

        def build(case: Any, params: Any, name: str = name) -> Any:
            def call(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6, **more: torch.Tensor) -> torch.Tensor:
                calls[name, case.m] += 1
                found: torch.Tensor = case.reference({"x": x, "w": w, "eps": eps, **more})[0]
                return found

            return call

        monkeypatch.setattr(real, "build", build)

        def pack(case: Any, params: Any, weight: torch.Tensor) -> torch.Tensor:
            return QUANTISERS[case.weights](weight).values()

        monkeypatch.setattr(real, "pack", pack)
    return calls


@pytest.mark.parametrize(("weights", "ranks"), [("int8", 1), ("int4_minimum", 1), ("int8", 2)])
@torch.no_grad()
def test_passes_of_few_rows_multiply_by_the_rounded_weights(
    rows: Counter[tuple[str, int]], weights: str, ranks: int
) -> None:
    """Norms of ones are not folded into the matrices, which would be rounded as other ones. Every rank rounds its part
    as the whole model is rounded.
    """
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
    parts = tensor_parallel.divide(model, [torch.device("cpu")] * ranks).parts if ranks > 1 else [model]
    decoders = [Decoder(part) for part in parts]
    limits = limits_for(decoders[0], model.config, RequestedSize(64, 20))
    others = [name for name in VARIANTS if name not in INTEGERS]
    own = Engine([KernelsBackend(decoders, GPUS["h200"], limits, exclude=others, weights=weights)])
    requests = [Request(str(each), [each + 1, 7 * each + 3, 5], 3 + each // 5) for each in range(20)]
    for request in requests:
        own.add(request)
    while not own.idle:
        own.run_step()
    few = {("skinny_int8", False), (f"skinny_{weights}", False)}
    assert {(name, count > 16) for name, count in rows} == {*few, ("small_gemm_int8", True)}
    eager = runners.runner("eager", rounded)
    for request in requests:
        ids, length = torch.tensor([request.ids]), request.prompt_length
        assert logit_gaps(eager, ids[:, :length], [request.ids[length:]]).refusal(LARGEST_DIFFERENCE["bf16"]) is None
