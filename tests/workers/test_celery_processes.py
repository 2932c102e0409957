"""What the Celery processes load, how messages are delivered, and which are dropped at once."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from workbench.celery import app as ledger
from workers.documents.broker import (
    LEDGER_TASK,
    LONGEST_STAGE_SECONDS,
    SWEEP_RUNS_TASK,
    SWEEP_UPLOADS_TASK,
    VISIBILITY_SECONDS,
    gpu_class_of,
    gpu_queue,
)
from workers.documents.workload import Constraints
from workers.gpu import app as gpu
from workers.gpu import run_stage

LOADED = """
import importlib, json, sys
for module in ("workers.gpu", "workers.stages.explore"):
    importlib.import_module(module)
    print(json.dumps(sorted(sys.modules)))
"""


def test_the_gpu_worker_knows_no_database_and_explore_starts_without_transformers() -> None:
    """Which take longer to import than torch, and only a GPU's candidates need the model that explore builds."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    loaded, with_explore = (set(json.loads(line)) for line in done.stdout.splitlines()[-2:])
    assert not {"django.db", "django.conf", "sqlite3", "psycopg"} & loaded
    assert not [name for name in loaded if name.startswith("workbench")]
    assert "transformers" not in with_explore


@pytest.mark.parametrize("app", [gpu, ledger], ids=["gpu", "ledger"])
def test_delivery_is_at_least_once_and_no_message_is_seen_again_within_the_longest_stage(app: Celery) -> None:
    longest_run = Constraints.model_fields["minutes"].metadata
    minutes = max(getattr(limit, "le", 0) for limit in longest_run)
    assert minutes * 60 < LONGEST_STAGE_SECONDS < VISIBILITY_SECONDS
    assert app.conf.broker_transport_options["visibility_timeout"] == VISIBILITY_SECONDS
    assert app.conf.task_time_limit == LONGEST_STAGE_SECONDS
    assert app.conf.task_acks_late
    assert app.conf.task_reject_on_worker_lost
    assert app.conf.worker_prefetch_multiplier == 1
    assert app.conf.task_ignore_result
    assert app.conf.result_backend is None
    assert app.conf.accept_content == ["json"]
    assert not app.conf.worker_cancel_long_running_tasks_on_connection_loss


def test_queues_name_their_class_and_the_ledger_finds_the_tasks_of_every_application() -> None:
    assert gpu_class_of(gpu_queue("h200")) == "h200"
    assert gpu_class_of("ledger") == ""
    ledger.loader.import_default_modules()
    assert ledger.tasks.keys() >= {LEDGER_TASK, SWEEP_RUNS_TASK, SWEEP_UPLOADS_TASK}


RUN = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_TOKEN", "of the test")
    monkeypatch.setenv("WORKER_API_URL", "http://127.0.0.1:9")


@pytest.mark.parametrize(
    "message", [("x", "admit", 1), ("", "admit", 1), (7, "admit", 1), (RUN, "nonesuch", 1), (RUN, "admit", 0)]
)
@pytest.mark.usefixtures("unreachable")
def test_a_message_that_names_nothing_is_dropped(message: tuple[Any, ...]) -> None:
    begun = time.monotonic()
    done = run_stage.apply(args=message, routing_key="gpu.cpu")
    assert done.successful()
    assert time.monotonic() - begun < 30, "the worker waits for a workbench that cannot be reached"


@pytest.mark.usefixtures("unreachable")
def test_a_worker_without_a_place_for_a_stages_files_claims_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk, or a link that somebody put there, costs no attempt."""
    (tmp_path / "stages").symlink_to(tmp_path)
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path))
    assert run_stage.apply(args=(RUN, "admit", 1), routing_key="gpu.cpu").successful()
    assert "no stage claimed, scratch folder unavailable" in caplog.text
    assert "workbench unreachable" not in caplog.text
