"""Recovers runs whose worker or message was lost. The ledger's schedule calls it every SWEEP_SECONDS."""

import logging
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Least
from django.utils import timezone

from workbench import broker
from workbench.runs import dispatch, run_queue, state
from workbench.runs.models import LastSweep, Run
from workbench.runs.workers import reroute_waiting

log = logging.getLogger(__name__)

LATE = timedelta(seconds=1)
"""A sweep that is late by less is on time."""


@dataclass
class SweepCounts:
    """How many runs were given a new attempt, and how many messages were sent again."""

    retried: int = 0
    published: int = 0


def sweep() -> SweepCounts:
    """Retry, cancel or lose runs whose lease has ended; send again what no worker has claimed.

    A message sent twice is harmless, since only one claim of an attempt succeeds.
    """
    swept = SweepCounts()
    now, away = _resume()
    for run in Run.objects.filter(state=Run.State.RUNNING, lease_until__lt=now):
        swept.retried += state.retry(run_queue.key_of(run), f"{run.worker} was not heard of any more", stale_since=now)
    if not away:
        reroute_waiting()
    swept.published = _publish_missing(now - timedelta(seconds=settings.REPUBLISH_SECONDS), now)
    return swept


def _resume() -> tuple[datetime, timedelta]:
    """The time now, and how long sweep or database were away since the last sweep, which no lease is to count.

    A worker could not be heard then, or nobody looked. Each lease lasts so much longer, at most a whole one from now;
    where the clock was put back, none lasts longer than that.
    """
    with transaction.atomic():
        running = Run.objects.filter(state=Run.State.RUNNING)
        running.exists()  # waits while the table is locked, as heartbeats do
        last = LastSweep.objects.select_for_update().filter(pk=1).first()
        now = timezone.now()
        pause = now - last.at if last else timedelta()
        away = max(timedelta(), pause - timedelta(seconds=settings.SWEEP_SECONDS))
        LastSweep.objects.update_or_create(pk=1, defaults={"at": now})
        latest = now + timedelta(seconds=settings.LEASE_SECONDS)
        if pause < timedelta():
            running.filter(lease_until__gt=latest).update(lease_until=latest)
        if away < LATE:
            return now, timedelta()
        counted = running.filter(lease_until__lt=latest).update(
            lease_until=Least(F("lease_until") + away, Value(latest))
        )
    if counted:
        log.warning("no sweep for %.0f s: the leases of %d runs do not count that time", pause.total_seconds(), counted)
    return now, away


def _publish_missing(before: datetime, now: datetime) -> int:
    """Send again what was not sent, or was sent `before` (or after `now`, by a clock that was put back) and is not
    claimed, as far as its queue lacks messages.

    A queue that has a message for every run that waits in it is long, but lacks none: nothing is sent to it.
    """
    lacking: dict[str, list[UUID]] = defaultdict(list)
    waiting: Counter[str] = Counter()
    rows = Run.objects.filter(state=Run.State.QUEUED).order_by("created_at")
    for run_id, stage, gpu_class, sent in rows.values_list("id", "stage", "gpu_class", "published_at"):
        queue = dispatch.queue_of(stage, gpu_class)
        waiting[queue] += 1
        if sent is None or not before <= sent <= now:
            lacking[queue].append(run_id)
    published = 0
    for queue, run_ids in lacking.items():
        there = broker.messages_in(queue)
        if there is None:
            break
        published += sum(dispatch.publish(run_id) for run_id in run_ids[: max(0, waiting[queue] - there)])
    return published
