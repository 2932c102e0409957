"""The ledger: its sweep counts no time away as silence and sends again what Redis lost; its stages fail alone."""

import errno
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.utils import timezone

from tests.redis_settings import redis_settings, running_redis
from workbench import broker as messages
from workbench.runs import dispatch, services, state, tasks
from workbench.runs.models import LastSweep, Run, Worker
from workbench.runs.sweep import sweep
from workbench.runs.tasks import run_stage
from workers.documents.stages import StageInput
from workers.documents.worker_api import StageKey
from workers.harness.context import Context


@pytest.fixture
def held(workload, engineer):
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
def test_a_sweep_that_was_away_gives_the_worker_time_to_be_heard(held, settings, caplog):
    """Here for an hour, as when the machine slept or its clock was put forward."""
    _silent_for(held, settings, 3600)
    LastSweep.objects.update(at=_ago(seconds=3600))
    assert sweep().retried == 0
    held.refresh_from_db()
    assert (held.state, held.attempt) == ("running", 1)
    assert held.lease_until > timezone.now()
    assert "the leases of 1 runs do not count that time" in caplog.text
    _silent_for(held, settings, settings.LEASE_SECONDS + 1)
    assert sweep().retried == 1
    held.refresh_from_db()
    assert (held.state, held.attempt) == ("queued", 2)


@pytest.mark.django_db
@pytest.mark.parametrize(("silent", "away"), [(60, 30), (1, 0)])
def test_only_the_time_away_is_not_counted(held, settings, silent, away):
    """Silent for so much longer than a lease, of which the sweep was away for half at most: that is too long."""
    _silent_for(held, settings, settings.LEASE_SECONDS + silent)
    LastSweep.objects.update(at=_ago(seconds=settings.SWEEP_SECONDS + away))
    assert sweep().retried == 1


@pytest.mark.django_db
def test_a_dead_worker_is_found_although_the_clock_was_put_back(held, settings):
    """By an hour: the last sweep lies ahead, and so does the end of the lease."""
    _silent_for(held, settings, -3600)
    LastSweep.objects.update(at=_ago(seconds=-3600))
    assert sweep().retried == 0
    held.refresh_from_db()
    assert held.lease_until <= timezone.now() + timedelta(seconds=settings.LEASE_SECONDS)
    _silent_for(held, settings, settings.LEASE_SECONDS + 1)
    assert sweep().retried == 1


@pytest.mark.django_db
def test_no_run_is_moved_while_no_worker_could_be_heard(workload, engineer):
    Worker.objects.create(name="gpu-0", gpu_class="h200", last_seen=_ago(seconds=100))
    run = services.create_run(workload, engineer)
    sweep()
    LastSweep.objects.update(at=_ago(seconds=100))
    Worker.objects.create(name="gpu-cpu", gpu_class="cpu", last_seen=timezone.now())
    sweep()
    run.refresh_from_db()
    assert run.gpu_class == "h200"


QUEUE = "gpu.h200"


@pytest.fixture
def broker(tmp_path, settings):
    """A Redis of this test's own, which runs are sent to."""
    with running_redis(tmp_path) as (port, _):
        settings.GPU_REDIS_URL = redis_settings(port)["GPU_REDIS_URL"]
        messages._sender_at.cache_clear()
        yield redis.Redis(port=port, socket_timeout=60, retry_on_error=[redis.ConnectionError])
        messages._sender(QUEUE).close()
        messages._sender_at.cache_clear()


@pytest.fixture
def waiting(workload, engineer):
    """`waiting(5)`: so many runs that were sent long ago."""

    def make(count):
        Run.objects.bulk_create(
            Run(organisation=workload.organisation, workload=workload, gpu_class="h200", created_by=engineer)
            for _ in range(count)
        )
        for run_id in Run.objects.values_list("id", flat=True):
            dispatch.publish(run_id)
        _grow_old()

    return make


def _grow_old():
    Run.objects.update(published_at=timezone.now() - timedelta(hours=1))


def test_a_long_queue_does_not_grow_and_as_many_messages_are_sent_again_as_are_lost(broker, waiting):
    waiting(20)
    for _ in range(5):
        assert sweep().published == 0
        _grow_old()
    assert broker.llen(QUEUE) == 20
    for _ in range(5):
        broker.lpop(QUEUE)
    assert sweep().published == 5
    assert broker.llen(QUEUE) == 20
    for sent in (timezone.now() - timedelta(hours=1), None):
        broker.flushall()
        Run.objects.update(published_at=sent)
        assert sweep().published == 20


@pytest.mark.parametrize("planted", [b"no separator", b"\xff\xfe", b"gpu.h200\x06\x16\x06\x16elsewhere"])
def test_what_a_gpu_worker_plants_among_the_bindings_breaks_no_request(broker, waiting, planted, caplog):
    """Its user in Redis may write there, and kombu reads it when the web sends a message."""
    broker.sadd("_kombu.binding.gpu.h200", planted)
    waiting(1)
    assert Run.objects.count() == 1
    assert broker.llen(QUEUE) == 1 or "waits for the sweep" in caplog.text


@pytest.fixture
def priced(run):
    """A run that waits for its stage without a GPU."""
    Run.objects.filter(id=run.id).update(stage="price")
    run.refresh_from_db()
    return run


def _run(run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception) -> Any:
    def stage(document: StageInput, context: Context) -> None:
        raise error

    monkeypatch.setattr(tasks, "_stage", lambda name: stage)
    outcome = tasks.run_stage.apply(args=(str(run.id), "price", 1))
    run.refresh_from_db()
    return outcome


def test_a_full_disk_leaves_the_run_to_the_sweep(priced, monkeypatch):
    outcome = _run(priced, monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    assert (outcome.failed(), priced.state, priced.error) == (True, "running", None)


def test_another_error_fails_the_run_with_a_sentence(priced, monkeypatch):
    assert _run(priced, monkeypatch, ValueError("the numbers do not add up")).successful()
    assert (priced.state, "the numbers do not add up" in priced.error["sentence"]) == ("failed", True)


@pytest.mark.parametrize("message", [("x", "price", 1), (7, "price", 1), ("", "nonesuch", 0)])
def test_a_message_that_names_nothing_is_dropped(message):
    assert run_stage.apply(args=message).successful()
