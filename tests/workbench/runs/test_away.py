"""Time in which the workbench itself was away, or its database, is no silence of a worker."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from workbench.runs import services, state
from workbench.runs.models import LastSweep, Run, Worker
from workbench.runs.sweep import sweep
from workers.documents.worker_api import StageKey


@pytest.fixture
def held(workload: Any, engineer: Any) -> Run:
    """A run whose first stage a worker holds, for whom a sweep has just looked."""
    run = services.create_run(workload, engineer)
    sweep()
    state.claim(StageKey(run_id=str(run.id), stage="admit", attempt=1), "a worker")
    return run


def _ago(**since: float) -> Any:
    return timezone.now() - timedelta(**since)


def _silent_for(run: Run, settings: Any, seconds: float) -> None:
    lease_until = _ago(seconds=seconds) + timedelta(seconds=settings.LEASE_SECONDS)
    Run.objects.filter(pk=run.pk).update(lease_until=lease_until)


@pytest.mark.django_db
def test_a_sweep_that_was_away_gives_the_worker_time_to_be_heard(held: Run, settings: Any, caplog: Any) -> None:
    """Here for an hour, as when the machine slept or its clock was put forward."""
    _silent_for(held, settings, 3600)
    LastSweep.objects.update(at=_ago(seconds=3600))
    assert sweep().retried == 0
    held.refresh_from_db()
    assert (held.state, held.attempt) == ("running", 1)
    assert held.lease_until > timezone.now()
    assert "the leases of 1 runs do not count that time" in caplog.text


@pytest.mark.django_db
def test_a_dead_worker_is_found_although_the_clock_was_put_back(held: Run, settings: Any) -> None:
    """By an hour: the last sweep lies ahead, and so does the end of the lease."""
    _silent_for(held, settings, -3600)
    LastSweep.objects.update(at=_ago(seconds=-3600))
    assert sweep().retried == 0
    held.refresh_from_db()
    assert held.lease_until <= timezone.now() + timedelta(seconds=settings.LEASE_SECONDS)
    _silent_for(held, settings, settings.LEASE_SECONDS + 1)
    assert sweep().retried == 1


@pytest.mark.django_db
def test_a_worker_that_stays_silent_is_found_afterwards(held: Run, settings: Any) -> None:
    _silent_for(held, settings, 3600)
    LastSweep.objects.update(at=_ago(seconds=3600))
    sweep()
    _silent_for(held, settings, settings.LEASE_SECONDS + 1)
    assert sweep().retried == 1
    held.refresh_from_db()
    assert (held.state, held.attempt) == ("queued", 2)


@pytest.mark.django_db
def test_only_the_time_away_is_not_counted(held: Run, settings: Any) -> None:
    """Silent for a minute longer than a lease, of which the sweep was away for half: that is still too long."""
    _silent_for(held, settings, settings.LEASE_SECONDS + 60)
    LastSweep.objects.update(at=_ago(seconds=settings.SWEEP_SECONDS + 30))
    assert sweep().retried == 1


@pytest.mark.django_db
def test_sweeps_that_are_on_time_find_a_dead_worker(held: Run, settings: Any) -> None:
    _silent_for(held, settings, settings.LEASE_SECONDS + 1)
    LastSweep.objects.update(at=_ago(seconds=settings.SWEEP_SECONDS))
    assert sweep().retried == 1


@pytest.mark.django_db
def test_no_run_is_moved_while_no_worker_could_be_heard(workload: Any, engineer: Any) -> None:
    Worker.objects.create(name="gpu-0", gpu_class="h200", last_seen=_ago(seconds=100))
    run = services.create_run(workload, engineer)
    sweep()
    LastSweep.objects.update(at=_ago(seconds=100))
    Worker.objects.create(name="gpu-cpu", gpu_class="cpu", last_seen=timezone.now())
    sweep()
    run.refresh_from_db()
    assert run.gpu_class == "h200"
