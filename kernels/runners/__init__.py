"""Models made ready to run: load one, describe one, choose a runner, apply a plan. Imports without torch."""

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.plan import Plan
from kernels.runners.base import Generation, Runner

if TYPE_CHECKING:
    import torch

    from kernels.model.loading import ConfigurationFacts

__all__ = ["Generation", "Runner", "apply", "describe", "free", "load", "runner"]


def load(
    model_dir: Path | None,
    config: dict[str, Any],
    *,
    seed: int = 0,
    generated: bool = False,
    dtype: str = "bf16",
    device: str | None = None,
    tensor_parallel_size: int = 1,
    pipeline_parallel_size: int = 1,
) -> Any:
    """The model of `config` in evaluation mode, without gradients, on `device` (a GPU if there is one).

    Weights come from the safetensors in `model_dir`, or from `seed` when `generated` (model_dir may then be None).
    `dtype` is fp32, bf16 or fp16. With a `tensor_parallel_size` above 1 each GPU gets its shard
    (`kernels.model.tensor_parallel.load`); otherwise it is a torch.nn.Module. With a `pipeline_parallel_size` above 1
    each GPU gets as many whole layers, which run in turn. Raises ValueError with one sentence when configuration or
    tensors do not fit.
    """
    from kernels.model import loading, tensor_parallel
    from kernels.model.device_map import layers_in_turn

    if pipeline_parallel_size > 1:
        gpus_in_turn = tensor_parallel.devices_of(pipeline_parallel_size, device)
        device_map = layers_in_turn(loading.skeleton(config, dtype), gpus_in_turn)
        return loading.load(model_dir, config, seed=seed, generated=generated, dtype=dtype, device_map=device_map)
    if tensor_parallel_size > 1:
        devices = tensor_parallel.devices_of(tensor_parallel_size, device)
        return tensor_parallel.load(model_dir, config, devices, seed=seed, generated=generated, dtype=dtype)
    return loading.load(model_dir, config, seed=seed, generated=generated, dtype=dtype, device=device)


def free() -> None:
    """Gives memory that nothing holds any more back to the GPU, such as that of a model."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def describe(config: dict[str, Any], dtype: str | None = None) -> "ConfigurationFacts":
    """What transformers would build of the config, on the meta device. Raises ValueError when it cannot be built."""
    from kernels.model import loading

    return loading.describe(config, dtype)


def runner(name: str, model: "torch.nn.Module", options: dict[str, Any] | None = None) -> Runner:
    """A runner of `kernels.plan.RunnerName` for a loaded model. Raises ValueError for an unknown name."""
    from kernels.runners.by_name import runner as make

    return make(name, model, options)


def apply(model: Any, plan: Plan) -> Runner:
    """The plan's runner over the model, whole or in as many shards as the plan has GPUs, with its variants of linear,
    attention and long convolutions. Raises ValueError for another number of shards or fewer GPUs.
    """
    from kernels.runners.by_name import apply as put

    return put(model, plan)
