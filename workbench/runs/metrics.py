"""What Prometheus is told of the pipeline. It is read from the database and the broker when Prometheus asks.

Figures that end in `_last_hour` are of what ended within the last hour; they fall by themselves.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError
from django.db.models import Count, Max, Q, QuerySet
from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily

from kernels.measure.intervals import percentile
from workbench import broker
from workbench.intake.models import Upload
from workbench.intake.services import placement
from workbench.runs import dispatch
from workbench.runs.models import Event, Run, StageRun, Worker
from workers.documents.broker import LEDGER_QUEUE, gpu_queue
from workers.documents.stages import GPU_STAGES

RECENT = timedelta(hours=1)


class PipelineCollector:
    """The queues, runs, stages and GPU workers of this database."""

    def describe(self) -> list[Any]:
        """Nothing: the registry need not ask the database to learn names."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The figures of this moment; `workbench_database_up` alone is 0 when the database does not answer."""
        now = timezone.now()
        try:
            families = [*_queues(now), _states(), *_workers(), *_recent(now), *_uploads(now)]
        except DatabaseError:
            families = []
        yield _gauge("workbench_database_up", "Whether the database answers", [], {(): float(bool(families))})
        yield from families


def _gauge(name: str, meaning: str, labels: list[str], values: dict[Any, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, meaning, labels=labels)
    for key, value in values.items():
        family.add_metric([str(part) for part in key], value)
    return family


def _queues(now: datetime) -> Iterator[GaugeMetricFamily]:
    """A queue's runs, the age of the one that waits longest, and its messages."""
    served = Worker.objects.filter(last_seen__gte=placement.alive_since()).values_list("gpu_class", flat=True)
    depth: Counter[tuple[str]] = Counter({(LEDGER_QUEUE,): 0} | {(gpu_queue(gpu_class),): 0 for gpu_class in served})
    oldest: dict[tuple[str], float] = dict.fromkeys(depth, 0.0)
    waiting = Run.objects.filter(state=Run.State.QUEUED).order_by().annotate(before=Max("stages__finished_at"))
    for stage, gpu_class, created, before in waiting.values_list("stage", "gpu_class", "created_at", "before"):
        queue = (dispatch.queue_of(stage, gpu_class),)
        depth[queue] += 1
        oldest[queue] = max(oldest.get(queue, 0.0), (now - (before or created)).total_seconds())
    yield _gauge("workbench_queue_runs", "Runs that wait in a queue", ["queue"], dict(depth))
    yield _gauge("workbench_queue_oldest_seconds", "How long a queue's first has waited", ["queue"], oldest)
    messages = {queue: broker.messages_in(queue[0]) for queue in depth}
    there = {queue: float(count) for queue, count in messages.items() if count is not None}
    yield _gauge("workbench_queue_messages", "Messages that the broker holds for a queue", ["queue"], there)


def _uploads(now: datetime) -> Iterator[GaugeMetricFamily]:
    """Uploads whose files were not checked yet, and the age of the one that waits longest."""
    times = list(Upload.objects.waiting().values_list("touched_at", flat=True))
    oldest = max(((now - since).total_seconds() for since in times), default=0.0)
    yield _gauge("workbench_uploads_waiting", "Uploads that wait for their check", [], {(): float(len(times))})
    yield _gauge("workbench_uploads_oldest_seconds", "How long the first of them has waited", [], {(): oldest})


def _states() -> GaugeMetricFamily:
    counted = Run.objects.order_by().values_list("state").annotate(Count("id"))
    values = {(state.value,): 0.0 for state in Run.State} | {(state,): float(count) for state, count in counted}
    return _gauge("workbench_runs", "Runs by their state", ["state"], values)


def _workers() -> Iterator[GaugeMetricFamily]:
    alive = Worker.objects.filter(last_seen__gte=placement.alive_since()).order_by()
    counted = {(gpu,): float(count) for gpu, count in alive.values_list("gpu_class").annotate(Count("id"))}
    yield _gauge("workbench_gpu_workers", "GPU workers that are alive", ["gpu_class"], counted)
    running = Run.objects.filter(state=Run.State.RUNNING, stage__in=GPU_STAGES).order_by()
    at_work = {(gpu,): float(count) for gpu, count in running.values_list("gpu_class").annotate(Count("id"))}
    values = dict.fromkeys(counted, 0.0) | at_work
    yield _gauge("workbench_gpu_workers_at_work", "GPU workers that hold a stage", ["gpu_class"], values)


def _recent(now: datetime) -> Iterator[GaugeMetricFamily]:
    """What ended within the last hour: runs by cause, attempts that did not count or died, and stages' times."""
    since = now - RECENT
    runs = Run.objects.filter(Q(state__in=Run.OPEN) | Q(finished_at__gte=since)).order_by()
    yield _gauge("workbench_runs_ended_last_hour", "Runs by how and where they ended", ["end", "stage"], _ends(runs))
    died = Event.objects.filter(run__in=runs, kind__in=("retried", "handed_back"), at__gte=since).order_by()
    attempts = {
        (kind, stage): float(count) for kind, stage, count in died.values_list("kind", "stage").annotate(Count("id"))
    }
    meaning = "Attempts that died (retried) or that an orderly stop ended (handed_back)"
    yield _gauge("workbench_attempts_ended_last_hour", meaning, ["end", "stage"], attempts)
    times: dict[str, list[float]] = defaultdict(list)
    done = StageRun.objects.filter(run__in=runs, state=StageRun.State.DONE, finished_at__gte=since).order_by()
    for stage, began, ended in done.values_list("stage", "started_at", "finished_at"):
        if began is not None and ended is not None:
            times[stage].append((ended - began).total_seconds())
    values = {(stage, f"p{p}"): percentile(sorted(seconds), p) for stage, seconds in times.items() for p in (50, 95)}
    yield _gauge("workbench_stage_seconds_last_hour", "Time of finished stages", ["stage", "percentile"], values)
    counts = {(stage,): float(len(seconds)) for stage, seconds in times.items()}
    yield _gauge("workbench_stages_done_last_hour", "Stages that were finished", ["stage"], counts)


def _ends(runs: QuerySet[Run]) -> dict[tuple[str, str], float]:
    """Numbers of ended runs by end state and stage; a run that failed by its input counts as `refused`."""
    ended = runs.exclude(state__in=Run.OPEN).values_list("state", "stage", "error__refused")
    counted = Counter(
        ("refused" if state == Run.State.FAILED and refused else state, stage) for state, stage, refused in ended
    )
    return {key: float(count) for key, count in counted.items()}
