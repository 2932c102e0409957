"""Promises that no chip of a class can keep, or that are predicted to be missed there, before any GPU time is spent.

Imports no torch.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kernels.hardware import GPUS
from kernels.measure.request_case import request_case
from kernels.measure.roofline import peak_floor_ms
from kernels.megakernel.program.ranks import TENSOR_PARALLEL_SIZES
from kernels.model_files.families import is_mixture
from workers.documents.gpu_class import class_of_several, gpus_of, single_gpu_class
from workers.documents.measurement import Ceilings
from workers.documents.model import ModelManifest
from workers.documents.workload import Objective, Sla
from workers.prediction.precisions import smallest_precision
from workers.prediction.predict import MEDIAN, divides, fastest, predict_run
from workers.wording.text import plain, quantity

VLLM_GENERATES = "vllm is a baseline for models that do; take eager or compiled"
"""Why no server of vLLM's is before with a model that generates no text, behind that fact."""

COMPILED_ON_ONE = "torch.compile runs a model on one GPU; take eager or vllm as what runs today"


@dataclass(frozen=True)
class AvailableGpus:
    """The classes that have a worker now, and the newest runs' ceilings by the class of one GPU."""

    live: Collection[str] = ()
    ceilings: Mapping[str, Ceilings] = field(default_factory=dict)


def impossible(objective: Objective, sla: Sla, model: ModelManifest, gpu_class: str, available: AvailableGpus) -> str:
    """A sentence when no runner can keep the promise on the GPUs of the class, with the floor; "" when one might.

    The floor: every weight, in the smallest precision that is allowed, and the keys and values are read once a token at
    the datasheet's bandwidth, and the prompt is multiplied at the chip's highest rate (`kernels.measure.roofline`).
    Several GPUs divide both, where they can divide the model. The sentence also has `more_gpus`.
    """
    floor = floor_ms(objective, sla, model, gpu_class)
    if not floor or objective.limit is None:
        return ""
    gpu, traffic, precision, several = single_gpu_class(gpu_class), sla.traffic, smallest_precision(sla, model), ""
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
        several = more_gpus(objective, sla, model, gpu_class, available)
    return (
        f"{objective.label} of {quantity(objective.limit, objective.unit)} is impossible on {name}: {bound}, "
        f"reading the weights{' of its experts' if is_mixture(model.config) else ''} once a token{several}"
    )


def predicted_miss(sla: Sla, model: ModelManifest, gpu_class: str, ceilings: Mapping[str, Ceilings]) -> str:
    """A sentence for the first promise that the fastest plan predicted on the class has a median beyond; "" for none.

    What is not predicted counts as kept, and so does a promise below the median or of a rate.
    """
    for objective in sla.objectives:
        ms = _fastest_ms(objective, sla, model, gpu_class, ceilings) if objective.limit is not None else None
        if ms and objective.limit is not None and _beyond(objective, ms):
            by = rates_words(gpu_class, ceilings)
            took = f"the median {objective.title} is predicted to be {plain(ms)} ms (modelled, {by})"
            return f"On {gpu_class} {took}; promised are at most {plain(objective.limit)} ms."
    return ""


def rates_words(gpu_class: str, ceilings: Mapping[str, Ceilings]) -> str:
    """What predictions for the class are by, behind *modelled*."""
    gpu = single_gpu_class(gpu_class)
    return "by measured rates" if gpu in ceilings or GPUS[gpu].source == "measured" else "by the datasheet"


def why_several(
    sla: Sla, model: ModelManifest, gpu_class: str, classes: Collection[str], available: AvailableGpus
) -> str:
    """Why a run goes to this class though `classes` has some of fewer GPUs: the first promise that one of those cannot
    keep, else the first that is predicted to be missed, as a sentence; "" for none.
    """
    fewer = [name for name in classes if gpus_of(name) < gpus_of(gpu_class)]
    for name in fewer:
        for objective in sla.objectives:
            if sentence := impossible(objective, sla, model, name, available):
                return f"{sentence}."
    return next(filter(None, (predicted_miss(sla, model, name, available.ceilings) for name in fewer)), "")


def more_gpus(objective: Objective, sla: Sla, model: ModelManifest, gpu_class: str, available: AvailableGpus) -> str:
    """How many GPUs that divide the model could keep the promise, and their class, behind a sentence; "" for none.

    They are more than those of the class that divide it. Their floor lies within the limit, and the median that is
    predicted, too, where some of these numbers have that. Of these it is the fewest whose class the workload allows or
    has a live worker, else the fewest of all. A class is to be allowed only where no miss is predicted.
    """
    gpu, limit = single_gpu_class(gpu_class), objective.limit or 0.0
    floor = floor_ms(objective, sla, model, gpu)
    if not floor:
        return ""
    gpus_now = _dividing(model, gpu_class)
    more = [
        size for size in TENSOR_PARALLEL_SIZES if size > gpus_now and floor / size <= limit and divides(model, size)
    ]
    classes = {size: class_of_several(gpu, size) for size in more}
    rates = available.ceilings
    median = {n: _fastest_ms(objective, sla, model, name, rates) if name else None for n, name in classes.items()}
    in_time = [size for size in more if not _beyond(objective, median[size])]
    if not (enough := in_time or more):
        return ""
    usable = {*sla.constraints.gpu_classes, *available.live}
    gpus = next((size for size in enough if classes[size] in usable), enough[0])
    choice, likely = classes[gpus], median[gpus]
    words = f". {gpus} GPUs that divide the model have a floor of {quantity(floor / gpus, 'ms')}"
    if likely and objective.percentile >= MEDIAN:
        by = rates_words(gpu, rates)
        words += f" {'and' if in_time else 'but'} are predicted to take {plain(likely)} ms (modelled, {by})"
    if not choice or choice in sla.constraints.gpu_classes or not in_time:
        return words
    return f"{words}: allow the class {choice}{', of which a worker is there' if choice in available.live else ''}"


def _fastest_ms(
    objective: Objective, sla: Sla, model: ModelManifest, gpu_class: str, ceilings: Mapping[str, Ceilings]
) -> float | None:
    """The least median that is predicted of what the promise is about; None where none is."""
    best = fastest(predict_run(sla, model, gpu_class, ceilings).plans, objective)
    return best[0] if best else None


def _beyond(objective: Objective, likely: float | None) -> bool:
    """Whether a time at the median or above is predicted to miss its limit. Only these are held against predictions."""
    is_time = objective.unit == "ms" and objective.percentile >= MEDIAN
    return bool(likely and is_time and likely > (objective.limit or 0.0))


def _at_once(sla: Sla) -> int:
    """Requests that are served together at most, which throughput is promised of; under load those of all users."""
    return max(sla.traffic.batch, sla.load.most_users if sla.load else 1)


def floor_ms(objective: Objective, sla: Sla, model: ModelManifest, gpu_class: str) -> float:
    """The least ms of what the objective waits for; 0 without a bound, as for gaps between tokens."""
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
    case = request_case(model.config, model.parameters, smallest_precision(sla, model), batch, prompt, tokens)
    return peak_floor_ms(case, GPUS[single_gpu_class(gpu_class)]) / _dividing(model, gpu_class) if case else 0.0


def _dividing(model: ModelManifest, gpu_class: str) -> int:
    """How many GPUs of the class divide the model: all or one."""
    gpus = gpus_of(gpu_class)
    return gpus if gpus > 1 and divides(model, gpus) else 1
