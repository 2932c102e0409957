"""`/metrics`: for a token only, the time of every request, and the pipeline as the database has it."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import sample_runs
from django.conf import settings
from django.test import Client
from django.utils import timezone

from workbench.accounts.models import Organisation, User
from workbench.intake.models import Upload
from workbench.runs import state
from workbench.runs.models import Run, Worker
from workers.documents.worker_api import StageKey

TOKEN = "a-token-for-the-test"


@pytest.fixture
def scrape(settings: Any) -> Callable[..., dict[str, float]]:
    """The samples that Prometheus reads, by name and labels as they are written."""
    settings.METRICS_TOKEN = TOKEN

    def samples(*collectors: str) -> dict[str, float]:
        settings.METRICS_COLLECTORS = list(collectors)
        answer = Client(headers={"Authorization": f"Bearer {TOKEN}"}).get("/metrics")
        assert answer.status_code == 200, answer.content
        lines = [line for line in answer.content.decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    return samples


def test_it_is_not_there_without_a_token_and_closed_without_the_right_one(db: None, settings: Any) -> None:
    assert Client().get("/metrics").status_code == 404
    settings.METRICS_TOKEN = TOKEN
    assert Client().get("/metrics").status_code == 401
    assert Client(headers={"Authorization": "Bearer other"}).get("/metrics").status_code == 401


def test_requests_are_timed_by_the_pattern_of_their_address(db: None, scrape: Callable[..., dict[str, float]]) -> None:
    name = 'workbench_request_seconds_count{address="login/",method="GET",status="2xx"}'
    before = scrape().get(name, 0)
    Client().get("/login/")
    Client().get("/no/such/page/of/a/stranger/")
    after = scrape()
    assert after[name] == before + 1
    assert not any("stranger" in each for each in after)
    assert any(re.fullmatch(r'workbench_request_seconds_bucket{.*le="0.15".*}', each) for each in after)


def test_the_pipelines_figures_are_those_of_the_database(
    organisation: Organisation, engineer: User, scrape: Callable[..., dict[str, float]]
) -> None:
    now = timezone.now()
    Worker.objects.create(name="w", gpu_class="h200", last_seen=now)
    for _ in range(2):
        sample_runs.run(organisation, engineer, state="queued", upto="admit")
    Run.objects.update(created_at=now - timedelta(minutes=5))
    running = sample_runs.run(organisation, engineer, state="running", upto="verify")
    sample_runs.run(organisation, engineer, state="failed", upto="admit")
    sample_runs.run(organisation, engineer)
    state.retry(StageKey(run_id=str(running.id), stage="verify", attempt=1), "its process was killed")
    waits = {"state": "checking", "touched_at": now}
    Upload.objects.filter(pk=Upload.objects.create(organisation=organisation).pk).update(**waits)
    found = scrape("workbench.runs.metrics.PipelineCollector")
    assert found["workbench_database_up"] == 1
    assert found["workbench_uploads_waiting"] == 1
    assert 0 <= found["workbench_uploads_oldest_seconds"] < 400
    assert found['workbench_runs{state="queued"}'] == 3
    assert found['workbench_queue_runs{queue="gpu.h200"}'] == 3
    assert 299 < found['workbench_queue_oldest_seconds{queue="gpu.h200"}'] < 400
    assert found['workbench_queue_runs{queue="ledger"}'] == 0
    assert found['workbench_gpu_workers{gpu_class="h200"}'] == 1
    assert found['workbench_gpu_workers_at_work{gpu_class="h200"}'] == 0
    assert found['workbench_runs_ended_last_hour{end="refused",stage="admit"}'] == 1
    assert found['workbench_runs_ended_last_hour{end="done",stage="report"}'] == 1
    assert found['workbench_attempts_ended_last_hour{end="retried",stage="verify"}'] == 1
    assert (
        found['workbench_stage_seconds_last_hour{percentile="p50",stage="baseline"}'] == sample_runs.SECONDS["baseline"]
    )


def test_the_site_of_the_pages_does_not_ask_the_database() -> None:
    assert settings.METRICS_COLLECTORS == []
