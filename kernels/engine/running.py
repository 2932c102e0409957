"""Runners by name, and plans made runnable."""

from typing import Any

import torch

from kernels.engine import decoder
from kernels.engine.base import Runner
from kernels.engine.compiled import CompiledRunner
from kernels.engine.eager import EagerRunner
from kernels.engine.planned import PlannedAttention, PlannedLinear, install
from kernels.hardware import GPUS
from kernels.plan import Plan

RUNNERS: dict[str, type[Runner]] = {runner.name: runner for runner in (EagerRunner, CompiledRunner)}


def runner(name: str, model: torch.nn.Module, options: dict[str, Any] | None = None) -> Runner:
    """See `kernels.engine.runner`."""
    if name == "megakernel":  # CuPy is not everywhere
        from kernels.megakernel.runner import MegakernelRunner

        return MegakernelRunner(model, options)
    if name not in RUNNERS:
        raise ValueError(f"runner: there is no {name!r} runner; there are {', '.join(RUNNERS)}")
    return RUNNERS[name](model, options)


def apply(model: torch.nn.Module, plan: Plan) -> Runner:
    """See `kernels.engine.apply`."""
    gpu = GPUS.get(plan.gpu, GPUS["cpu"])
    linear, attention = PlannedLinear(plan.ops, gpu), PlannedAttention(plan.ops, gpu)
    if plan.runner == "compiled" and not decoder.refusal(model):
        return CompiledRunner(model, plan.options, linear or None, attention or None)
    install(model, linear, attention)
    return runner(plan.runner, model, plan.options)
