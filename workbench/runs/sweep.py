"""Recovers runs whose worker or message was lost. The ledger's schedule calls it every SWEEP_SECONDS."""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from workbench.runs import dispatch, state
from workbench.runs import placement as workers
from workbench.runs.models import Run
from workers.documents.worker_api import StageKey


@dataclass
class Swept:
    """How many runs were given a new attempt, and how many messages were sent again."""

    retried: int = 0
    published: int = 0


def sweep() -> Swept:
    """Retry, cancel or lose runs whose lease has ended; send again what no worker has claimed.

    A message sent twice is harmless, since only one claim of an attempt succeeds.
    """
    swept = Swept()
    now = timezone.now()
    for run in Run.objects.filter(state=Run.State.RUNNING, lease_until__lt=now):
        key = StageKey(run_id=str(run.id), stage=run.stage, attempt=run.attempt)  # type: ignore[arg-type]
        swept.retried += state.retry(key, f"{run.worker} was not heard of any more", stale_since=now)
    workers.reroute_waiting()
    old = now - timedelta(seconds=settings.REPUBLISH_SECONDS)
    unclaimed = Run.objects.filter(Q(published_at=None) | Q(published_at__lt=old), state=Run.State.QUEUED)
    for run_id in unclaimed.values_list("id", flat=True):
        swept.published += dispatch.publish(run_id)
    return swept
