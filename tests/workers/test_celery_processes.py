"""What the Celery processes load, and the delivery settings that a lost job would follow from."""

import json
import subprocess
import sys

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


def _loaded(module: str) -> set[str]:
    code = f"import {module}, sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_explore_starts_without_transformers() -> None:
    """It takes longer to import than torch, and only a GPU's candidates need the model that it builds."""
    assert "transformers" not in _loaded("workers.stages.explore")


def test_the_gpu_worker_knows_no_database() -> None:
    loaded = _loaded("workers.gpu")
    assert not {"django.db", "django.conf", "sqlite3", "psycopg"} & loaded
    assert not [name for name in loaded if name.startswith("workbench")]


@pytest.mark.parametrize("app", [gpu, ledger], ids=["gpu", "ledger"])
def test_a_message_stays_invisible_longer_than_the_longest_stage(app: Celery) -> None:
    longest_run = Constraints.model_fields["minutes"].metadata
    minutes = max(getattr(limit, "le", 0) for limit in longest_run)
    assert minutes * 60 < LONGEST_STAGE_SECONDS < VISIBILITY_SECONDS
    assert app.conf.broker_transport_options["visibility_timeout"] == VISIBILITY_SECONDS
    assert app.conf.task_time_limit == LONGEST_STAGE_SECONDS


@pytest.mark.parametrize("app", [gpu, ledger], ids=["gpu", "ledger"])
def test_delivery_is_at_least_once_and_results_go_nowhere(app: Celery) -> None:
    assert app.conf.task_acks_late
    assert app.conf.task_reject_on_worker_lost
    assert app.conf.worker_prefetch_multiplier == 1
    assert app.conf.task_ignore_result
    assert app.conf.result_backend is None
    assert app.conf.accept_content == ["json"]
    assert not app.conf.worker_cancel_long_running_tasks_on_connection_loss


def test_queues_name_their_class() -> None:
    assert gpu_class_of(gpu_queue("h200")) == "h200"
    assert gpu_class_of("ledger") == ""


def test_the_ledger_finds_the_tasks_of_every_application() -> None:
    ledger.loader.import_default_modules()
    assert ledger.tasks.keys() >= {LEDGER_TASK, SWEEP_RUNS_TASK, SWEEP_UPLOADS_TASK}
