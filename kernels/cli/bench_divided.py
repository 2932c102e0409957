"""What `bench decode` needs for a model that is measured in parts: these, and torch's own answers by them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from kernels import runners
from kernels.cli.bench_document import BenchRow
from kernels.model.tensor_parallel import TensorParallelModel
from kernels.ops import ModelCase
from kernels.runners import Runner
from kernels.runners.tensor_parallel_runner import TensorParallelRunner
from kernels.runners.whole_model import WholeModel

MOST_WEIGHTS = 0.9
"""Weights that take more than this share of a GPU's memory are divided over several."""

Wanted = tuple[WholeModel, ModelCase]


def larger_than(device: torch.device, config: dict[str, Any], dtype: str) -> bool:
    """Whether the weights alone fill the GPU."""
    if device.type != "cuda":
        return False
    memory = torch.cuda.get_device_properties(device).total_memory
    return runners.describe(config, dtype).weight_bytes > MOST_WEIGHTS * memory


def rows(
    config: dict[str, Any],
    wanted: Sequence[Wanted],
    measured: Callable[[Any, Sequence[Wanted]], Iterator[BenchRow]],
    larger: bool = True,
) -> Iterator[BenchRow]:
    """The rows that `measured` gives of those that are wanted, one after the other. Of a model that is `larger` than
    one GPU, those on one GPU are errors.

    Each variant has a model or parts of its own, which it may round in place.
    """
    for variant, case in wanted:
        try:
            if larger and not case.gpus:
                raise ValueError("one GPU does not hold the model; `--tensor-parallel-size 2` measures it over two")
            model = runners.load(None, config, generated=True, tensor_parallel_size=case.gpus or 1)
        except ValueError as error:
            facts, wrong = case.model_dump(exclude_none=True), f"It could not run: {error}"
            yield BenchRow(
                op="model", case=facts, variant=variant.name, params={}, peer=False, gate="error", reason=wrong
            )
            continue
        yield from measured(model, [(variant, case)])
        del model
        runners.free()


def groups_of(wanted: Sequence[Wanted], tensor_parallel_sizes: Sequence[int]) -> Iterator[list[Wanted]]:
    """What is loaded and measured together: everything; with `tensor_parallel_sizes` one group for each precision.

    The rows of a group come when it ends, and its memory is free for the next one.
    """
    if tensor_parallel_sizes:
        for weights in dict.fromkeys(case.weights for _, case in wanted):
            yield [pair for pair in wanted if pair[1].weights == weights]
    elif wanted:
        yield list(wanted)


def reference(model: Any) -> Runner:
    """torch's own ops on the model."""
    return TensorParallelRunner(model) if isinstance(model, TensorParallelModel) else runners.runner("eager", model)


def options_of(variant: WholeModel, case: ModelCase, model: Any) -> dict[str, Any]:
    """The GPUs of a model that is not divided yet; one that is can be rounded to nearest alone."""
    if isinstance(model, TensorParallelModel):
        return {"rounding": {"method": "nearest"}} if variant.lossy else {}
    return {"devices": list(range(case.gpus))} if case.gpus else {}
