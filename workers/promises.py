"""Promises that no chip of a class can keep, found before any GPU time is spent. Imports no torch."""

from kernels.hardware import GPUS
from kernels.measure.request_case import request_case
from kernels.measure.roofline import peak_floor_ms
from kernels.megakernel.ranks import RANKS, part_of
from kernels.megakernel.shape import Unsupported, shape_of
from kernels.ops import BYTES
from workers.charts.text import plain, quantity
from workers.documents.model import ModelManifest
from workers.documents.workload import Objective, Precision, Sla


def impossible(objective: Objective, sla: Sla, model: ModelManifest, gpu_class: str) -> str:
    """A sentence when no runner can keep the promise on a GPU of the class, with the floor; "" when one might.

    The floor: every weight, in the smallest precision that is allowed, and the keys and values are read once a token at
    the datasheet's bandwidth, and the prompt is multiplied at the chip's highest rate (`kernels.measure.roofline`). The
    sentence also names the number of GPUs whose floor, the model divided among them, lies within the promise.
    """
    floor = floor_ms(objective, sla, model, gpu_class)
    if not floor or objective.limit is None:
        return ""
    name, traffic, precision, several = GPUS[gpu_class].name, sla.traffic, _smallest(sla), ""
    if objective.metric == "throughput":
        most = traffic.batch * traffic.output_tokens / floor * 1000
        if objective.limit <= most:
            return ""
        bound = f"it gives at most {quantity(most, objective.unit)} in {precision}"
    elif objective.limit >= floor:
        return ""
    else:
        bound = f"it takes at least {plain(floor)} ms in {precision}"
        several = _several(floor, objective.limit, model)
    return (
        f"{objective.label} of {quantity(objective.limit, objective.unit)} is impossible on {name}: {bound}, "
        f"reading the weights once a token{several}"
    )


def _several(floor: float, limit: float, model: ModelManifest) -> str:
    """How many GPUs that divide the model, as the megakernel may, have their floor within the limit, in ms."""
    for gpus in RANKS[1:]:
        if floor / gpus <= limit and _divides(model, gpus):
            return (
                f". {gpus} GPUs that divide the model have a floor of {plain(floor / gpus)} ms; plans are for one GPU"
            )
    return ""


def _divides(model: ModelManifest, gpus: int) -> bool:
    try:
        part_of(shape_of(model.config), gpus)
    except (Unsupported, KeyError):
        return False
    return True


def _smallest(sla: Sla) -> Precision:
    return min(sla.constraints.precisions, key=lambda name: BYTES[name])


def floor_ms(objective: Objective, sla: Sla, model: ModelManifest, gpu_class: str) -> float:
    """The least ms of what the objective waits for; 0 where nothing bounds it.

    Gaps between tokens have no floor of their own: several tokens may become readable at once.
    """
    traffic = sla.traffic
    waited: dict[str, tuple[int, int]] = {
        "ttft": (traffic.prompt_tokens, 1),
        "ttf_n": (traffic.prompt_tokens, objective.n or 1),
        "tpot": (1, 1),
        "e2e": (traffic.prompt_tokens, traffic.output_tokens),
        "batch_latency": (traffic.prompt_tokens, traffic.output_tokens),
        "throughput": (traffic.prompt_tokens, traffic.output_tokens),
    }
    if model.kind != "decoder" or objective.metric not in waited:
        return 0.0
    prompt, tokens = waited[objective.metric]
    case = request_case(model.config, model.parameters, _smallest(sla), traffic.batch, prompt, tokens)
    return peak_floor_ms(case, GPUS[gpu_class]) if case else 0.0
