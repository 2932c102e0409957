"""A worker that has ended a stage goes on with the run's next one, if no other run goes before it."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
import sample_results
from django.utils import timezone

from workbench.accounts.models import User
from workbench.runs import services, state
from workbench.runs.models import Run
from workers.documents.stages import StageInput
from workers.documents.worker_api import CLAIM_HEADER, StageKey

ADMIT: dict[str, Any] = sample_results.results().admit.model_dump(mode="json")  # type: ignore[union-attr]
pytestmark = pytest.mark.urls("workbench.worker_site.urls")


@pytest.fixture
def outcome(worker: Any, run: Run, key: StageKey) -> dict[str, Any]:
    """The result of a stage that this worker holds, with a claim of the next one."""
    assert worker("claim", {**key.model_dump(), "worker": "w"}).status_code == 200
    return {**key.model_dump(), "result": ADMIT, "next_claim_id": str(uuid.uuid4())}


def test_a_result_claims_the_next_stage_and_no_message_is_sent(
    worker: Any, run: Run, outcome: dict[str, Any], django_capture_on_commit_callbacks: Any
) -> None:
    Run.objects.filter(id=run.id).update(published_at=None)
    with django_capture_on_commit_callbacks(execute=True):
        answer = worker("result", outcome)
    following = StageInput.model_validate_json(answer.content)
    assert (answer.status_code, following.stage, following.attempt) == (200, "baseline", 1)
    run.refresh_from_db()
    assert (run.state, run.stage, run.worker, run.published_at) == ("running", "baseline", "w", None)
    key = {"run_id": str(run.id), "stage": "baseline", "attempt": 1}
    assert worker("heartbeat", key).status_code == 200


def test_a_claim_whose_answer_was_lost_is_asked_for_again(worker: Any, run: Run, outcome: dict[str, Any]) -> None:
    answer = worker("result", outcome)
    assert worker("result", outcome).status_code == 409
    key = {name: outcome[name] for name in ("run_id", "stage", "attempt")}
    again = worker("claim", {**key, "worker": "w", "claim_id": outcome["next_claim_id"]})
    assert (again.status_code, again.content) == (200, answer.content)
    assert again.headers[CLAIM_HEADER] == answer.headers[CLAIM_HEADER]


def test_a_run_that_began_earlier_goes_first(worker: Any, run: Run, outcome: dict[str, Any], engineer: User) -> None:
    older = services.create_run(run.workload, engineer)
    Run.objects.filter(id=older.id).update(started_at=timezone.now() - timedelta(hours=1))
    assert worker("result", outcome).status_code == 204
    run.refresh_from_db()
    assert (run.state, run.stage) == ("queued", "baseline")


def test_a_cancelled_run_has_no_next_stage(worker: Any, run: Run, outcome: dict[str, Any]) -> None:
    assert state.cancel(run.id, "somebody")
    assert worker("result", outcome).status_code == 204
    run.refresh_from_db()
    assert run.state == "cancelled"


def test_the_stages_of_the_ledger_are_not_claimed(worker: Any, run: Run, outcome: dict[str, Any]) -> None:
    for stage in ("baseline", "profile", "explore", "compose", "verify"):
        run.stages.filter(stage=stage).update(state="done")
    assert worker("result", outcome).status_code == 204
    run.refresh_from_db()
    assert (run.state, run.stage) == ("queued", "price")
