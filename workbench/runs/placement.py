"""Knows the GPU workers that are alive, and chooses the GPU class of a run."""

from datetime import datetime, timedelta

from django.utils import timezone

from workbench.intake.services.workloads import memory_gib, needed_gib
from workbench.runs import state
from workbench.runs.models import Run, Worker
from workers.documents.model import ModelManifest
from workers.documents.worker_api import WORKER_ALIVE_SECONDS, Hello
from workers.documents.workload import Workload


def alive_since() -> datetime:
    """A worker that spoke after this moment is alive."""
    return timezone.now() - timedelta(seconds=WORKER_ALIVE_SECONDS)


def alive() -> set[str]:
    """GPU classes that have a worker which spoke within WORKER_ALIVE_SECONDS."""
    return set(Worker.objects.filter(last_seen__gte=alive_since()).values_list("gpu_class", flat=True))


def alive_workers(gpu_class: str) -> int:
    """How many workers serve the class."""
    return Worker.objects.filter(last_seen__gte=alive_since(), gpu_class=gpu_class).count()


def choose_class(workload: Workload, manifest: ModelManifest) -> str:
    """The first allowed class with enough memory and a worker, else the first with enough memory."""
    needed = needed_gib(manifest, workload)
    allowed = list(workload.constraints.gpu_classes)
    fits = [name for name in allowed if needed <= memory_gib(name)] or allowed
    living = alive()
    return next((name for name in fits if name in living), fits[0])


def greet(hello: Hello) -> None:
    """Records that a worker is alive. A new worker takes runs that wait for a class without a worker."""
    before, now = alive(), timezone.now()
    for gpu_class in hello.gpu_classes:
        Worker.objects.update_or_create(name=hello.worker, gpu_class=gpu_class, defaults={"last_seen": now})
    if not before.issuperset(hello.gpu_classes):
        reroute_waiting()


def reroute_waiting() -> None:
    """Moves runs that have not begun from a class without a worker to an allowed class with one."""
    living = alive()
    waiting = Run.objects.filter(state=Run.State.QUEUED, started_at=None, gpu_class_fixed=False)
    for run in waiting.exclude(gpu_class__in=living).select_related("workload__model"):
        document, manifest = run.workload.reading[0], run.workload.model.reading[0]
        if document is None or manifest is None:
            continue
        chosen = choose_class(document, manifest)
        if chosen in living:
            state.reroute(run, chosen)
