"""Loads the model of a stage: its device, its precision and its runner; and samples what goes on while it runs."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from kernels import runners
from kernels.measure.environment import environment_info
from kernels.measure.telemetry import TelemetrySampler
from kernels.plan import Plan
from kernels.runners import Runner
from workers.documents.gpu_class import gpus_of
from workers.documents.measurement import Environment
from workers.documents.stages import Placement, StageInput
from workers.harness.context import Context, StageError
from workers.prediction.precisions import serving_dtype


class NoRoom(StageError):
    """The device's memory does not hold the model."""


def device_of(gpu_class: str) -> str:
    """cuda or cpu. Raises StageError where the machine has fewer GPUs than the class, or GPUs of several types."""
    if gpu_class == "cpu":
        return "cpu"
    if not torch.cuda.is_available():
        raise StageError(f"The run asks for {gpu_class}, but this worker has no GPU.")
    if (visible := torch.cuda.device_count()) < gpus_of(gpu_class):
        raise StageError(f"The run asks for {gpu_class}, but this worker has {visible} of its GPUs.")
    names = dict.fromkeys(torch.cuda.get_device_name(number) for number in range(gpus_of(gpu_class)))
    if len(names) > 1:
        raise StageError(f"The run asks for {gpu_class}, but this worker's GPUs differ: {', '.join(names)}.")
    return "cuda"


def dtype_of(document: StageInput) -> str:
    """The precision before any optimisation: the admit stage's, or what it would choose."""
    if document.results.admit is not None:
        return document.results.admit.dtype
    own = runners.describe(document.model.config).dtype
    return serving_dtype(own, list(document.workload.constraints.precisions), document.gpu_class)


def load(document: StageInput, context: Context, dtype: str | None = None, **sizes: int) -> Any:
    """The model of the stage in `dtype` (default: the serving precision): whole on the first GPU, or over several by
    one of the `sizes` of `runners.load`. Raises StageError when it cannot be built.
    """
    manifest, started = document.model, time.monotonic()
    try:
        return runners.load(
            context.model_dir,
            manifest.config,
            seed=manifest.seed,
            generated=manifest.generated,
            dtype=dtype or dtype_of(document),
            device=device_of(document.gpu_class),
            **sizes,
        )
    except ValueError as error:
        raise StageError(str(error), refused=True) from error
    except torch.OutOfMemoryError as error:
        raise NoRoom(f"The model does not fit: {str(error).splitlines()[0]}") from error
    finally:
        context.starts_and_loads += time.monotonic() - started


def load_baseline(document: StageInput, context: Context, placement: Placement | None = None) -> Any:
    """The model as it runs today, in the serving precision: transformers', over as many GPUs as hold it. On several it
    is placed as baseline found it faster, or by `placement`.
    """
    size = document.tensor_parallel_size
    if size == 1:
        return load(document, context)
    if (placement or document.placement) == "pipeline_parallel":
        return load(document, context, pipeline_parallel_size=size)
    from kernels.model.tensor_parallel_modules import over_ranks  # which imports transformers

    return over_ranks(load(document, context, tensor_parallel_size=size))


def load_once(document: StageInput, context: Context, placement: Placement | None = None) -> Any:
    """The model of `load_baseline`, loaded once for all stages that share a process.

    A later stage gets the same object, so it must stay as it is: a plan that changes weights or modules gets a model of
    its own (`planned_runner`). The seconds that loading took are in `context.shared["loading_seconds"]`.
    """
    if "model" not in context.shared:
        started = time.monotonic()
        context.shared["model"] = load_baseline(document, context, placement)
        context.shared["loading_seconds"] = time.monotonic() - started
    return context.shared["model"]


def release(context: Context) -> None:
    """Give up the models that stages share, and their memory, once nothing else refers to them."""
    for name in ("model", "shards"):
        context.shared.pop(name, None)
    runners.free()


def planned_runner(document: StageInput, context: Context, plan: Plan, model: Any = None) -> Runner:
    """The plan's runner over a model of its own; a megakernel's over the model that runs `model`, which it does not
    change, where both are in one precision and over as many GPUs. Every runner of a sharded model shares its shards,
    but one that would round them. Raises StageError as `load`.
    """
    shards = document.tensor_parallel_size
    if shards > 1:
        if plan.runner == document.workload.baseline_plan_runner == "eager":
            return runners.runner(plan.runner, model if model is not None else load_baseline(document, context))
        if plan.options.get("weights", plan.dtype) == plan.dtype == dtype_of(document) and plan.shards == shards:
            return runners.apply(_shards(document, context, model), plan)
        context.shared.pop("shards", None)
        runners.free()
    elif model is not None and plan.runner == "megakernel" and (plan.dtype, plan.shards) == (dtype_of(document), 1):
        return runners.apply(model, plan)
    return runners.apply(load(document, context, plan.dtype, **plan.sizes), plan)


def _shards(document: StageInput, context: Context, model: Any) -> Any:
    """The model's shards: those of what runs `model`, else loaded once for the stages of a process."""
    if hasattr(model, "sharded"):
        return model.sharded
    if model is None:
        return load(document, context, tensor_parallel_size=document.tensor_parallel_size)
    if "shards" not in context.shared:
        context.shared["shards"] = load(document, context, tensor_parallel_size=document.tensor_parallel_size)
    return context.shared["shards"]


def vocabulary(model: torch.nn.Module) -> int:
    """The size of the vocabulary: prompt ids lie below it."""
    config = model.config.get_text_config()  # type: ignore[union-attr, operator]
    return int(getattr(config, "vocab_size", 0) or 1000)


@contextmanager
def prepared(runner: Runner, document: StageInput) -> Iterator[Runner]:
    """Yields the runner, compiled and warm for the workload's traffic. Closes it and frees its memory afterwards."""
    traffic = document.workload.traffic
    try:
        runner.prepare(traffic.batch, traffic.prompt_tokens, traffic.output_tokens)
        yield runner
    finally:
        runner.close()
        runners.free()


SECONDS_BETWEEN_SAMPLES = {"cuda": 0.05, "cpu": 0.5}
"""Reading a CPU's clock slows the measurement down, so a CPU is sampled less often."""


@contextmanager
def watch_device(document: StageInput) -> Iterator[Callable[[], Environment]]:
    """Samples clocks and power inside the block; the yielded function then gives the Environment with them.

    Of several GPUs the clock is the first one's, the power is that of all, and other programs are looked for on each.
    """
    device = device_of(document.gpu_class)
    facts = environment_info(device=device)
    interval = SECONDS_BETWEEN_SAMPLES[device]
    with TelemetrySampler(device, interval=interval, gpus=document.gpus) as telemetry:
        yield lambda: Environment.model_validate(facts | {"telemetry": telemetry.summary()})
