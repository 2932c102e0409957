"""A Redis that takes connections and answers nothing, as when its machine swaps: pages and the API go on."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches

from tests.redis_settings import redis_settings, running_redis
from workbench import broker
from workbench.runs import services
from workbench.runs.models import Run
from workbench.web import cache

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def freeze(tmp_path: Path, settings: Any) -> Iterator[Callable[[], None]]:
    """`freeze()` stops the site's Redis in its tracks."""
    with running_redis(tmp_path) as (port, process):
        for name, url in redis_settings(port).items():
            setattr(settings, name, url)
        settings.CACHES = {
            "default": {"BACKEND": "workbench.web.cache.ForgivingRedisCache", "LOCATION": settings.CACHE_URL},
        }
        broker._sender_at.cache_clear()
        caches["default"].set("asked", "before", 60)
        assert caches["default"].get("asked") == "before"
        yield lambda: process.send_signal(signal.SIGSTOP)
    broker._sender_at.cache_clear()


def test_it_delays_the_first_request_and_no_other(freeze, api, engineer, caplog):
    client = api(engineer)
    assert client.get("/api/v1/runs").status_code == 200
    freeze()
    begun = time.monotonic()
    for _ in range(8):
        assert client.get("/api/v1/runs").status_code == 200
    rests = (time.monotonic() - begun) / cache.REST_SECONDS
    assert 1 <= caplog.text.count("Redis does not answer") <= 1 + rests, "each of them asks Redis twice"


def test_a_run_is_taken_and_waits_for_the_sweep(freeze, workload, engineer, caplog):
    freeze()
    begun = time.monotonic()
    run = services.create_run(workload, engineer)
    assert time.monotonic() - begun < 10 * broker.PATIENCE_SECONDS
    assert Run.objects.get(pk=run.pk).published_at is None
    assert "waits for the sweep" in caplog.text
