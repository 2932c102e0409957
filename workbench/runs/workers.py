"""GPU workers that come: a new one takes runs that wait for a class without a worker."""

from django.utils import timezone

from workbench.intake.services.ceilings import known_ceilings
from workbench.intake.services.placement import alive, choose_class
from workbench.runs import state
from workbench.runs.models import Run, Worker
from workers.documents.worker_api import Hello


def greet(hello: Hello) -> None:
    """Records that a worker is alive. A new worker takes runs that wait for a class without a worker."""
    before, now = alive(), timezone.now()
    for gpu_class in hello.gpu_classes:
        its_own = gpu_class != "cpu" or hello.gpu_classes == ["cpu"]
        seen = {"last_seen": now, "memory_gib": hello.memory_gib if its_own else None}
        Worker.objects.update_or_create(name=hello.worker, gpu_class=gpu_class, defaults=seen)
    if not before.issuperset(hello.gpu_classes):
        reroute_waiting()


def reroute_waiting() -> None:
    """Moves runs that have not begun from a class without a worker to an allowed class with one."""
    live = alive()
    waiting = Run.objects.filter(state=Run.State.QUEUED, started_at=None, gpu_class_fixed=False)
    for run in waiting.exclude(gpu_class__in=live).select_related("workload__model"):
        document, manifest = run.workload.reading[0], run.workload.model.reading[0]
        if document is None or manifest is None or live.isdisjoint(document.constraints.gpu_classes):
            continue
        ceilings = known_ceilings(run.organisation_id, document.constraints.gpu_classes)
        chosen = choose_class(document, manifest, ceilings)
        if chosen in live:
            state.reroute(run, chosen)
