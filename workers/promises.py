"""Promises that no chip of a class can keep, found before any GPU time is spent. Imports no torch."""

from collections.abc import Collection

from kernels.hardware import GPUS
from kernels.measure.request_case import request_case
from kernels.measure.roofline import peak_floor_ms
from kernels.megakernel.ranks import RANKS, part_of
from kernels.megakernel.shape import Unsupported, shape_of
from kernels.ops import BYTES
from workers.charts.text import plain, quantity
from workers.documents.gpu_class import class_of_several, gpus_of, single_gpu_class
from workers.documents.model import ModelManifest
from workers.documents.workload import Objective, Precision, Sla


def impossible(
    objective: Objective, sla: Sla, model: ModelManifest, gpu_class: str, living: Collection[str] = ()
) -> str:
    """A sentence when no runner can keep the promise on the GPUs of the class, with the floor; "" when one might.

    The floor: every weight, in the smallest precision that is allowed, and the keys and values are read once a token at
    the datasheet's bandwidth, and the prompt is multiplied at the chip's highest rate (`kernels.measure.roofline`).
    Several GPUs divide both, where they can divide the model. The sentence also names the number of GPUs whose floor
    lies within the promise, and their class; `living` are the classes that have a worker now.
    """
    floor = floor_ms(objective, sla, model, gpu_class)
    if not floor or objective.limit is None:
        return ""
    gpu, traffic, precision, several = single_gpu_class(gpu_class), sla.traffic, _smallest(sla), ""
    name = GPUS[gpu].name if gpus_of(gpu_class) == 1 else f"{gpus_of(gpu_class)} {GPUS[gpu].name}"
    if objective.metric == "throughput":
        most = _at_once(sla) * traffic.output_tokens / floor * 1000
        if objective.limit <= most:
            return ""
        bound = f"it gives at most {quantity(most, objective.unit)} in {precision}"
    elif objective.limit >= floor:
        return ""
    else:
        bound = f"it takes at least {plain(floor)} ms in {precision}"
        several = _more(objective, sla, model, gpu, living)
    return (
        f"{objective.label} of {quantity(objective.limit, objective.unit)} is impossible on {name}: {bound}, "
        f"reading the weights once a token{several}"
    )


def divides(model: ModelManifest, gpus: int) -> bool:
    """Whether the megakernel can divide the model over `gpus` GPUs."""
    try:
        part_of(shape_of(model.config), gpus)
    except (Unsupported, KeyError):
        return False
    return True


def _more(objective: Objective, sla: Sla, model: ModelManifest, gpu: str, living: Collection[str]) -> str:
    """How many GPUs that divide the model, as the megakernel may, have a floor within the limit, and their class.

    These are the fewest whose class the workload allows or has a living worker, else the fewest of all.
    """
    floor, limit = floor_ms(objective, sla, model, gpu), objective.limit or 0.0
    enough = [each for each in RANKS[1:] if floor / each <= limit and divides(model, each)]
    if not enough:
        return ""
    there = {*sla.constraints.gpu_classes, *living}
    gpus = next((each for each in enough if class_of_several(gpu, each) in there), enough[0])
    choice = class_of_several(gpu, gpus)
    said = f". {gpus} GPUs that divide the model have a floor of {plain(floor / gpus)} ms"
    if not choice or choice in sla.constraints.gpu_classes:
        return said
    return f"{said}: allow the class {choice}{', of which a worker is there' if choice in living else ''}"


def _at_once(sla: Sla) -> int:
    """Requests that are served together at most, which throughput is promised of; under load those of all users."""
    return max(sla.traffic.batch, sla.load.most_users if sla.load else 1)


def _smallest(sla: Sla) -> Precision:
    return min(sla.constraints.precisions, key=lambda name: BYTES[name])


def floor_ms(objective: Objective, sla: Sla, model: ModelManifest, gpu_class: str) -> float:
    """The least ms of what the objective waits for, on the GPUs of a class; 0 where nothing bounds it.

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
    batch = _at_once(sla) if objective.metric == "throughput" else traffic.batch
    case, gpus = request_case(model.config, model.parameters, _smallest(sla), batch, prompt, tokens), 1
    if gpus_of(gpu_class) > 1 and divides(model, gpus_of(gpu_class)):
        gpus = gpus_of(gpu_class)
    return peak_floor_ms(case, GPUS[single_gpu_class(gpu_class)]) / gpus if case else 0.0
