"""What `bench decode` needs for a model that is larger than one GPU: its parts, and torch's own answers by them."""

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from kernels import engine
from kernels.cli.bench_document import Row
from kernels.engine import Runner, divided, loading
from kernels.engine.divided import Divided
from kernels.engine.divided_runner import DividedRunner
from kernels.engine.model_case import model_case
from kernels.engine.whole_model import WholeModel
from kernels.ops import ModelCase

MOST_WEIGHTS = 0.9
"""Weights that take more than this share of a GPU's memory are divided over several."""

Wanted = tuple[WholeModel, ModelCase]


def larger_than(device: torch.device, config: dict[str, Any], dtype: str) -> bool:
    """Whether the weights alone fill the GPU."""
    if device.type != "cuda":
        return False
    held = torch.cuda.get_device_properties(device).total_memory
    return engine.describe(config, dtype).weight_bytes > MOST_WEIGHTS * held


def case_of(config: dict[str, Any], group: tuple[str, int, int], dtype: str, tokens: int) -> ModelCase:
    """The case of a group (model, batch, prompt), from the model's shapes alone."""
    name, batch, prompt = group
    whole: Any = loading.skeleton(config, dtype)
    whole.tie_weights()
    return model_case(whole, name, dtype, batch, prompt, tokens)


def rows(
    config: dict[str, Any], wanted: Sequence[Wanted], measured: Callable[[Divided, Sequence[Wanted]], Iterator[Row]]
) -> Iterator[Row]:
    """The rows that `measured` gives of those that are wanted on several GPUs, and an error for each of the others.

    Each variant has parts of its own, which it may round in place.
    """
    for variant, case in wanted:
        try:
            if not case.gpus:
                raise ValueError("one GPU does not hold the model; `--gpus 2` measures the megakernel over two")
            model = parts_of(config, case, "bf16")
        except ValueError as error:
            facts, wrong = case.model_dump(exclude_none=True), f"It could not run: {error}"
            yield Row(op="model", case=facts, variant=variant.name, params={}, peer=False, gate="error", reason=wrong)
            continue
        yield from measured(model, [(variant, case)])
        del model
        free()


def free() -> None:
    """Gives memory that nothing holds any more back to the GPUs."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def parts_of(config: dict[str, Any], case: ModelCase, dtype: str) -> Divided:
    """The parts that the case's GPUs make of the model. Raises ValueError where there are fewer, or too small ones."""
    visible, gpus = torch.cuda.device_count(), case.gpus or 1
    if visible < gpus:
        raise ValueError(f"gpus: {gpus} are wanted, and {visible} can be seen here")
    try:
        return divided.generate(config, [torch.device("cuda", number) for number in range(gpus)], dtype)
    except torch.OutOfMemoryError as error:
        raise ValueError(f"gpus: {gpus} hold too little for this model: {str(error)[:160]}") from None


def reference(model: Any) -> Runner:
    """torch's own ops on the model."""
    return DividedRunner(model) if isinstance(model, Divided) else engine.runner("eager", model)


def options_of(variant: WholeModel, case: ModelCase, model: Any) -> dict[str, Any]:
    """The GPUs of a model that is not divided yet; one that is can be rounded to nearest alone."""
    if isinstance(model, Divided):
        return {"rounding": {"method": "nearest"}} if variant.lossy else {}
    return {"devices": list(range(case.gpus))} if case.gpus else {}
