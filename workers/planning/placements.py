"""How what runs today is placed on several GPUs: by the faster of transformers' two ways."""

from contextlib import nullcontext, suppress
from typing import Any

import torch

from kernels import runners
from kernels.runners.clients import Clients
from workers.documents.stages import Placement, StageInput
from workers.harness.context import Context, StageError
from workers.measuring.served_model import dtype_of, load_once, prepared, release
from workers.planning.trials import primary
from workers.prediction.memory import GIB, needed_gib

REQUESTS = 2
"""Requests of each way that are measured, after one that warms it up."""
WAYS: dict[Placement, str] = {
    "tensor_parallel": "sharded over its GPUs",
    "pipeline_parallel": "with whole layers on one GPU after the other",
}
COPIES_BESIDE_LAYERS = 3
"""Copies of the layers' weights where a plan stands beside whole layers: those, the plan's shards, and what it packs of
them. A plan beside sharded layers shares their shards.
"""


def choose_placement(document: StageInput, context: Context) -> dict[str, Any]:
    """Measures both ways, leaves the model as the faster one has it, and returns `BaselineResult`'s fields of it."""
    values: dict[Placement, float] = {}
    has_room = _has_room(document)
    ways = tuple(WAYS) if has_room else tuple(reversed(WAYS))  # the last one's model need not be loaded again
    for fraction, way in zip((0.05, 0.1), ways, strict=True):
        release(context)
        context.report_progress(fraction, f"measuring the model {WAYS[way]}")
        with nullcontext() if way == "tensor_parallel" else suppress(StageError, RuntimeError):  # it may not fit
            values[way] = _value(document, context, way)
    best = max if document.workload.objectives[0].direction == "at_least" else min
    faster = best(values, key=lambda placement: values[placement])
    no_room = faster == "pipeline_parallel" and not has_room
    placement: Placement = "tensor_parallel" if no_room else faster
    if placement == ways[-1]:
        context.shared["eager_is_warm"] = True
    else:
        release(context)
    load_once(document, context, placement)
    return {"placement": placement, "placements": values, "no_room": no_room}


def _value(document: StageInput, context: Context, placement: Placement) -> float:
    """The first objective's metric of a few requests. The model stays in `context.shared`."""
    model = load_once(document, context, placement)
    with prepared(runners.runner("eager", model), document) as runner:
        clients = Clients(runner, document.workload.traffic, seed=2)
        clients.warm_up()
        for _ in range(REQUESTS):
            clients.serve()
    figure = primary(document, clients, document.tensor_parallel_size)
    if figure is None:
        raise StageError("The first promise's metric has no value in any request.")
    return figure.value


def _has_room(document: StageInput) -> bool:
    """Whether each GPU, as its driver has it, holds a plan beside whole layers."""
    if document.gpu_class == "cpu":
        return True
    sizes = document.tensor_parallel_size, COPIES_BESIDE_LAYERS
    needed = needed_gib(document.workload, document.model, dtype_of(document), *sizes)
    return needed <= torch.cuda.get_device_properties(0).total_memory / GIB
