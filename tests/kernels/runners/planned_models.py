"""Models of a few layers under plans that name single variants."""

from typing import Any

import torch

from kernels import runners
from kernels.plan import Plan, PlannedOp
from tests.kernels.runners.engine_models import CONFIGS


def load(name: str | dict[str, Any], own_norms: bool = True) -> Any:
    """A model, by name or configuration, whose norm weights differ from one, so that folding them in is seen."""
    config = CONFIGS[name] if isinstance(name, str) else name
    model = runners.load(None, config, seed=3, generated=True, dtype="fp32", device="cpu")
    if own_norms:
        generator = torch.Generator().manual_seed(1)
        for parameter_name, parameter in model.named_parameters():
            if "norm" in parameter_name:
                parameter.data.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def planned(case: Any, variant: str) -> PlannedOp:
    return PlannedOp(op=case.op, case=case.model_dump(), variant=variant)


def applied(model: Any, ops: list[PlannedOp]) -> Any:
    return runners.apply(model, Plan(model_digest="", gpu="cpu", runner="kernels", dtype="fp32", ops=ops))
