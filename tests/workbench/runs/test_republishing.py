"""What the sweep sends again, to a real Redis."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.utils import timezone

from tests.redis_settings import redis_settings, running_redis
from workbench import broker as messages
from workbench.runs import dispatch
from workbench.runs.models import Run
from workbench.runs.sweep import sweep

QUEUE = "gpu.h200"


@pytest.fixture
def broker(tmp_path: Path, settings: Any) -> Iterator[redis.Redis]:
    """A Redis of this test's own, which runs are sent to."""
    with running_redis(tmp_path) as (port, _):
        settings.GPU_REDIS_URL = redis_settings(port)["GPU_REDIS_URL"]
        messages._sender_at.cache_clear()
        yield redis.Redis(port=port, socket_timeout=60, retry_on_error=[redis.ConnectionError])
        messages._sender(QUEUE).close()
        messages._sender_at.cache_clear()


@pytest.fixture
def waiting(workload: Any, engineer: Any) -> Callable[[int], None]:
    """So many runs that were sent long ago."""

    def make(count: int) -> None:
        Run.objects.bulk_create(
            Run(organisation=workload.organisation, workload=workload, gpu_class="h200", created_by=engineer)
            for _ in range(count)
        )
        for run_id in Run.objects.values_list("id", flat=True):
            dispatch.publish(run_id)
        _grow_old()

    return make


def _grow_old() -> None:
    Run.objects.update(published_at=timezone.now() - timedelta(hours=1))


def test_a_long_queue_does_not_grow(broker: redis.Redis, waiting: Callable[[int], None]) -> None:
    waiting(50)
    for _ in range(5):
        assert sweep().published == 0
        _grow_old()
    assert broker.llen(QUEUE) == 50


def test_as_many_messages_are_sent_again_as_are_lost(broker: redis.Redis, waiting: Callable[[int], None]) -> None:
    waiting(20)
    for _ in range(5):
        broker.lpop(QUEUE)
    assert sweep().published == 5
    assert broker.llen(QUEUE) == 20
    broker.flushall()
    _grow_old()
    assert sweep().published == 20


def test_what_was_never_sent_is_sent(broker: redis.Redis, waiting: Callable[[int], None]) -> None:
    waiting(3)
    broker.flushall()
    Run.objects.update(published_at=None)
    assert sweep().published == 3


@pytest.mark.parametrize("planted", [b"no separator", b"\xff\xfe", b"gpu.h200\x06\x16\x06\x16elsewhere"])
def test_what_a_gpu_worker_plants_among_the_bindings_breaks_no_request(
    broker: redis.Redis, waiting: Callable[[int], None], planted: bytes, caplog: Any
) -> None:
    """Its user in Redis may write there, and kombu reads it when the web sends a message."""
    broker.sadd("_kombu.binding.gpu.h200", planted)
    waiting(1)
    assert Run.objects.count() == 1
    assert broker.llen(QUEUE) == 1 or "waits for the sweep" in caplog.text
