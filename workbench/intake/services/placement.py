"""Knows the GPU workers that are alive, and chooses the GPU class of a run."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, get_args

from django.apps import apps
from django.utils import timezone

from kernels.model_files import longest_sequence
from workbench.intake.services.ceilings import known_ceilings
from workbench.intake.services.workloads import class_memory_gib, fewest_gpus, needed_gib
from workers.documents.gpu_class import GpuClass, gpus_of
from workers.documents.measurement import Ceilings
from workers.documents.model import ModelManifest
from workers.documents.worker_api import WORKER_ALIVE_SECONDS
from workers.documents.workload import Workload
from workers.prediction import feasibility
from workers.prediction.predict import MEDIAN

FASTER_ON_CPU = 1.1
"""The promise that a form begins with where only CPUs are there."""


class TooLarge(Exception):
    """The model fits no GPU of a live worker; the message is a sentence."""


def alive_since() -> datetime:
    """A worker that spoke after this moment is alive."""
    return timezone.now() - timedelta(seconds=WORKER_ALIVE_SECONDS)


def _living() -> Any:
    """The live workers, a row for each of their GPU classes."""
    return apps.get_model("runs", "Worker").objects.filter(last_seen__gte=alive_since())


def alive() -> set[str]:
    """GPU classes that have a live worker."""
    return set(_living().values_list("gpu_class", flat=True))


def alive_workers(gpu_class: str) -> int:
    """How many workers serve the class."""
    count: int = _living().filter(gpu_class=gpu_class).count()
    return count


def live_gib() -> dict[str, float]:
    """GiB of the largest live worker of each class, by the datasheet where a worker does not tell."""
    rows = _living().values_list("gpu_class", "memory_gib")
    largest: dict[str, float] = {}
    for name, gib in rows:
        largest[name] = max(largest.get(name, 0.0), class_memory_gib(name) if gib is None else gib)
    return largest


def check_fits(workload: Workload, manifest: ModelManifest, gpu_class: str | None) -> None:
    """Raises TooLarge when workers of the allowed classes, or of `gpu_class`, live and none has enough memory.

    Without one nothing is known of their memory but the datasheet: the run waits for a worker.
    """
    allowed = [gpu_class] if gpu_class else workload.constraints.gpu_classes
    has = {name: gib for name, gib in live_gib().items() if name in allowed}
    if not has or any(fewest_gpus(manifest, workload, name, gib) for name, gib in has.items()):
        return
    largest = max(has, key=lambda name: has[name])
    raise TooLarge(
        f"{manifest.name} needs {needed_gib(manifest, workload):,.1f} GiB for weights, KV cache and working memory; "
        f"the largest running worker, of class {largest}, has {has[largest]:,.1f} GiB"
    )


def known(organisation: Any, workload: Workload) -> feasibility.AvailableGpus:
    """What is known where an organisation's run of the workload may go."""
    return feasibility.AvailableGpus(alive(), known_ceilings(organisation, workload.constraints.gpu_classes))


def choose_class(workload: Workload, manifest: ModelManifest, ceilings: Mapping[str, Ceilings]) -> str:
    """The first allowed class with a worker that has enough memory, else the first with enough by its datasheet.

    Where its GPU cannot keep a promise, or is predicted not to, it is the first allowed class of several GPUs that is
    predicted to; else the first that might keep it by its floor. One with a worker goes before one without.
    """
    live = live_gib()
    allowed = list(workload.constraints.gpu_classes)
    fits = [name for name in allowed if fewest_gpus(manifest, workload, name, live.get(name))] or allowed
    chosen = next((name for name in fits if name in live), fits[0])
    tried = dict.fromkeys([chosen, *(name for name in fits if gpus_of(name) > 1)])
    possible = [name for name in tried if _possible(workload, manifest, name)]
    predicted = [name for name in possible if not feasibility.predicted_miss(workload, manifest, name, ceilings)]
    there = [name for name in (*predicted, *possible) if name in live]
    return next(iter([*there, *predicted, *possible]), chosen)


def refusal(workload: Workload, manifest: ModelManifest, gpu_class: str, available: feasibility.AvailableGpus) -> str:
    """Why no run of the workload may go to the class: a promise below its floor, with the class that could keep it."""
    refusals = (
        feasibility.impossible(objective, workload, manifest, gpu_class, available) for objective in workload.objectives
    )
    return next(filter(None, refusals), "")


def why_several(
    workload: Workload, manifest: ModelManifest, gpu_class: str, available: feasibility.AvailableGpus
) -> str:
    """Why a run goes to a class of several GPUs though an allowed class of fewer has a worker, in a sentence, or ""."""
    there = [name for name in workload.constraints.gpu_classes if name in available.live]
    return feasibility.why_several(workload, manifest, gpu_class, there, available)


def missed_by_fewer(
    workload: Workload, manifest: ModelManifest, gpu_class: str, ceilings: Mapping[str, Ceilings]
) -> list[str]:
    """Sentences for allowed classes of fewer GPUs than this one's that might keep every promise, but are predicted not
    to.
    """
    allowed = workload.constraints.gpu_classes
    fewer = [name for name in allowed if gpus_of(name) < gpus_of(gpu_class) and _possible(workload, manifest, name)]
    return [sentence for name in fewer if (sentence := feasibility.predicted_miss(workload, manifest, name, ceilings))]


def suit_workload(workload: Workload, manifest: ModelManifest) -> Workload:
    """The workload that a form begins with for a model: on classes that hold it, with promises above its floor there.

    Where no class holds it, the classes stay. A limit that no GPU can keep becomes 1.5 times the lowest floor. Where
    only CPUs are there, whose rates nobody knows, a limit in ms becomes FASTER_ON_CPU times faster than today, of
    medians. A prompt that is longer than the model takes becomes as long as it takes.
    """
    constraints = workload.constraints
    if not any(fewest_gpus(manifest, workload, name) for name in constraints.gpu_classes):
        larger = [name for name in get_args(GpuClass) if name != "cpu" and fewest_gpus(manifest, workload, name)]
        constraints = constraints.model_copy(update={"gpu_classes": larger or constraints.gpu_classes})
    gpus = [name for name in constraints.gpu_classes if name != "cpu"]
    only_cpus = alive() == {"cpu"}
    objectives = []
    for objective in workload.objectives:
        floors = [feasibility.floor_ms(objective, workload, manifest, name) for name in gpus]
        if objective.limit and objective.unit == "ms" and floors and min(floors) > objective.limit:
            objective = objective.model_copy(update={"limit": float(f"{1.5 * min(floors):.2g}")})
        if objective.limit and objective.unit == "ms" and only_cpus:
            relative = {"limit": None, "at_least_faster": FASTER_ON_CPU, "percentile": MEDIAN}
            objective = objective.model_copy(update=relative)
        objectives.append(objective)
    traffic, longest = workload.traffic, longest_sequence(manifest.config)
    if longest is not None:
        max_prompt = longest.tokens - (traffic.output_tokens if manifest.kind == "decoder" else 0)
        traffic = traffic.model_copy(update={"prompt_tokens": max(1, min(traffic.prompt_tokens, max_prompt))})
    changes = {"constraints": constraints, "objectives": objectives, "traffic": traffic}
    return workload.model_copy(update=changes)


def _possible(workload: Workload, manifest: ModelManifest, gpu_class: str) -> bool:
    return not any(
        feasibility.impossible(objective, workload, manifest, gpu_class, feasibility.AvailableGpus())
        for objective in workload.objectives
    )
