"""`/metrics`: for a token only, the time of every request, and the pipeline as the database has it."""

import re
from datetime import timedelta

import pytest
import sample_runs
from django.test import Client
from django.utils import timezone

from workbench.intake.models import Upload
from workbench.runs import state
from workbench.runs.models import Run, Worker
from workers.documents.worker_api import StageKey

TOKEN = "a-token-for-the-test"


@pytest.fixture
def scrape(settings):
    """The samples that Prometheus reads, by name and labels as they are written."""
    settings.METRICS_TOKEN = TOKEN

    def samples(*collectors: str) -> dict[str, float]:
        settings.METRICS_COLLECTORS = list(collectors)
        answer = Client(headers={"Authorization": f"Bearer {TOKEN}"}).get("/metrics")
        assert answer.status_code == 200, answer.content
        lines = [line for line in answer.content.decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    return samples


def test_it_is_not_there_without_a_token_and_closed_without_the_right_one(db, settings):
    assert Client().get("/metrics").status_code == 404
    assert settings.METRICS_COLLECTORS == [], "the site of the pages does not ask the database"
    settings.METRICS_TOKEN = TOKEN
    assert Client().get("/metrics").status_code == 401
    assert Client(headers={"Authorization": "Bearer other"}).get("/metrics").status_code == 401


def test_requests_are_timed_by_the_pattern_of_their_address(db, scrape):
    name = 'workbench_request_seconds_count{address="login/",method="GET",status="2xx"}'
    before = scrape().get(name, 0)
    Client().get("/login/")
    Client().get("/no/such/page/of/a/stranger/")
    after = scrape()
    assert after[name] == before + 1
    assert not any("stranger" in item for item in after)
    assert any(re.fullmatch(r'workbench_request_seconds_bucket{.*le="0.15".*}', item) for item in after)


def test_the_pipelines_figures_are_those_of_the_database(organisation, engineer, scrape):
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
    result = scrape("workbench.runs.metrics.PipelineCollector")
    exact = {
        "database_up": 1,
        "uploads_waiting": 1,
        'runs{state="queued"}': 3,
        'queue_runs{queue="gpu.h200"}': 3,
        'queue_runs{queue="ledger"}': 0,
        'gpu_workers{gpu_class="h200"}': 1,
        'gpu_workers_at_work{gpu_class="h200"}': 0,
        'runs_ended_last_hour{end="refused",stage="admit"}': 1,
        'runs_ended_last_hour{end="done",stage="report"}': 1,
        'attempts_ended_last_hour{end="retried",stage="verify"}': 1,
        'stage_seconds_last_hour{percentile="p50",stage="baseline"}': sample_runs.SECONDS["baseline"],
    }
    assert {name: result[f"workbench_{name}"] for name in exact} == exact
    assert 0 <= result["workbench_uploads_oldest_seconds"] < 400
    assert 299 < result['workbench_queue_oldest_seconds{queue="gpu.h200"}'] < 400


@pytest.mark.django_db
def test_a_probe_is_answered_whatever_its_host_and_scheme_and_without_redis_it_is_alive_but_not_ready(client, settings):
    settings.SECURE_SSL_REDIRECT = True
    settings.ALLOWED_HOSTS = ["workbench.example"]
    for path in ("/healthz", "/readyz"):
        assert client.get(path, headers={"Host": "10.0.0.1"}).status_code == 200
    assert client.get("/login/", headers={"Host": "workbench.example"}).status_code == 301
    settings.REDIS_URL = "redis://127.0.0.1:9/0"
    assert client.get("/healthz").status_code == 200
    answer = client.get("/readyz")
    assert (answer.status_code, answer.content) == (503, b"not ready: no answer from Redis\n")
