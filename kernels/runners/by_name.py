"""Runners by name, and plans that become runners."""

import importlib
from typing import Any

import torch

from kernels.hardware import GPUS
from kernels.model import decoder
from kernels.model.bound_variants import BoundVariants
from kernels.model.tensor_parallel import TensorParallelModel, devices_of
from kernels.model.tensor_parallel_modules import over_ranks
from kernels.plan import Plan
from kernels.runners.base import Runner
from kernels.runners.compiled import CompiledRunner, as_modules
from kernels.runners.kernels_runner import TensorParallelRunner
from kernels.runners.modules import install_convolutions, install_norms, pack_projections
from kernels.runners.planned import PlannedAttention, PlannedLinear, install

RUNNERS = {
    "eager": "kernels.runners.eager.EagerRunner",
    "compiled": "kernels.runners.compiled.CompiledRunner",
    "kernels": "kernels.runners.kernels_runner.KernelsRunner",
    "megakernel": "kernels.megakernel.runner.MegakernelRunner",
    "vllm": "kernels.runners.vllm_runner.VllmRunner",
}
"""Runners by name. They are imported on use, since not every machine has their dependencies."""
COMPOSED = ("kernels", "megakernel")
"""Runners whose passes of the compact decoder run a plan's ops; of the megakernel only the prompt's pass does."""


def runner(name: str, model: torch.nn.Module, options: dict[str, Any] | None = None) -> Runner:
    """See `kernels.runners.runner`."""
    built: Runner = _class(name)(model, options)
    return built


def _class(name: str) -> Any:
    if name not in RUNNERS:
        raise ValueError(f"runner: there is no {name!r} runner; there are {', '.join(RUNNERS)}")
    module, class_name = RUNNERS[name].rsplit(".", 1)
    return getattr(importlib.import_module(module), class_name)


def apply(model: Any, plan: Plan) -> Runner:
    """See `kernels.runners.apply`."""
    gpu, options = GPUS.get(plan.gpu, GPUS["cpu"]), plan.options
    if isinstance(model, TensorParallelModel):
        if len(model.shards) != plan.tensor_parallel_size:
            raise ValueError(
                f"tensor_parallel_size: the plan is for {plan.tensor_parallel_size}, and the model comes in "
                f"{len(model.shards)} shards"
            )
        if plan.runner == "eager":
            return runner(plan.runner, over_ranks(model), options)
        if plan.runner == "compiled":
            if options.get("compile", True):
                raise ValueError("compile: Inductor compiles no model that is sharded over several GPUs")
            return TensorParallelRunner(model)
        built: Runner = _class(plan.runner)(model, options, BoundVariants(plan.ops, gpu))
        return built
    if plan.placement == "pipeline_parallel":
        return runner(plan.runner, model, options)
    if plan.tensor_parallel_size > 1:
        options = options | {"devices": [device.index for device in devices_of(plan.tensor_parallel_size)]}
    if plan.runner in COMPOSED and not decoder.refusal(model):
        composed: Runner = _class(plan.runner)(model, options, BoundVariants(plan.ops, gpu))
        return composed
    linear, attention = PlannedLinear(plan.ops, gpu), PlannedAttention(plan.ops, gpu)
    if plan.runner == "compiled" and not as_modules(model):
        return CompiledRunner(model, plan.options, linear or None, attention or None)
    variants = BoundVariants(plan.ops, gpu)
    install(model, linear, attention)
    install_convolutions(model, variants)
    if plan.runner == "kernels":
        install_norms(model, variants)
        pack_projections(model, linear, linear.has)
    return runner(plan.runner, model, options)
