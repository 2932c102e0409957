"""The state machine: who holds an attempt may change it, once; everybody else changes nothing."""

from datetime import timedelta
from typing import Any

import pytest
import sample_results
from django.utils import timezone

from workbench import broker
from workbench.runs import services, state
from workbench.runs.models import Event, Run, StageRun, Worker
from workbench.runs.services import seconds_left
from workbench.runs.sweep import sweep
from workbench.runs.workers import greet
from workers.documents import budget
from workers.documents.stages import Progress, StageFailure, stages_of
from workers.documents.worker_api import Hello, StageKey
from workers.documents.workload import Workload as WorkloadDocument

ADMIT: dict[str, Any] = sample_results.results().admit.model_dump(mode="json")  # type: ignore[union-attr]


def _again(key: StageKey, **changes: Any) -> StageKey:
    return key.model_copy(update=changes)


def _expire(run: Run) -> None:
    Run.objects.filter(id=run.id).update(lease_until=timezone.now() - timedelta(seconds=1))


def _kinds(run: Run) -> list[str]:
    return list(Event.objects.filter(run=run).values_list("kind", flat=True))


def test_a_new_run_waits_with_all_its_stages(run: Run) -> None:
    assert (run.state, run.stage, run.attempt) == ("queued", "admit", 1)
    assert list(run.stages.values_list("stage", flat=True)) == list(stages_of(load=False))
    assert _kinds(run) == ["queued"]


def test_an_attempt_is_claimed_once(run: Run, key: StageKey) -> None:
    assert state.claim(key, "first") is not None
    assert state.claim(key, "second") is None
    run.refresh_from_db()
    assert (run.state, run.worker) == ("running", "first")


def test_a_claim_of_another_attempt_stage_or_class_is_refused(run: Run, key: StageKey) -> None:
    assert state.claim(_again(key, attempt=2), "w") is None
    assert state.claim(_again(key, stage="verify"), "w") is None
    assert state.claim(key, "w", gpu_class="b200") is None
    assert state.claim(key, "w", gpu_class=run.gpu_class) is not None


def test_a_result_queues_the_next_stage_and_counts_once(run: Run, key: StageKey) -> None:
    state.claim(key, "w")
    assert state.advance(key, ADMIT)
    assert not state.advance(key, ADMIT)
    run.refresh_from_db()
    assert (run.state, run.stage, run.attempt, run.worker) == ("queued", "baseline", 1, "")
    assert _kinds(run).count("stage_done") == 1
    assert services.results(run).admit is not None


def test_a_result_without_a_claim_changes_nothing(run: Run, key: StageKey) -> None:
    assert not state.advance(key, ADMIT)
    assert not state.fail(key, StageFailure(sentence="no"))
    assert not state.retry(key, "no")
    assert state.beat(key) is None
    run.refresh_from_db()
    assert run.state == "queued"


def test_the_last_stage_finishes_the_run_with_its_verdict(run: Run) -> None:
    results = sample_results.results()
    for stage in stages_of(load=False):
        key = StageKey(run_id=str(run.id), stage=stage, attempt=1)
        assert state.claim(key, "w") is not None
        document = getattr(results, stage)
        assert state.advance(key, document.model_dump(mode="json") if document else {})
    run.refresh_from_db()
    assert (run.state, run.verdict) == ("done", "met")
    assert run.finished_at is not None
    assert run.usd_after == results.price.same_load.usd_after.value  # type: ignore[union-attr]


def test_an_assumed_price_of_an_hour_is_no_cost_of_a_run(run: Run) -> None:
    results = sample_results.results()
    for stage in stages_of(load=False)[:-1]:
        key = StageKey(run_id=str(run.id), stage=stage, attempt=1)
        assert state.claim(key, "w") is not None
        document = getattr(results, stage).model_dump(mode="json")
        if stage == "price":
            document["same_load"]["after"]["price_basis"] = "modelled"
        assert state.advance(key, document)
    run.refresh_from_db()
    assert (run.stage, run.usd_after) == ("report", None)


@pytest.mark.parametrize("end", ["fail", "retry"])
def test_a_load_stage_that_fails_leaves_a_sentence_and_the_verdict(end: str, workload: Any, engineer: Any) -> None:
    workload.document |= {"load": {"most_users": 4}}
    workload.save()
    run = services.create_run(workload, engineer)
    known = sample_results.results()
    for stage in stages_of(load=True):
        key = StageKey(run_id=str(run.id), stage=stage, attempt=1)
        assert state.claim(key, "w") is not None
        if stage != "load":
            document = getattr(known, stage)
            assert state.advance(key, document.model_dump(mode="json") if document else {})
        elif end == "fail":
            assert state.fail(key, StageFailure(sentence="The server did not start."))
        else:
            for attempt in (1, 2, 3):
                assert state.retry(key, "it was killed")
                key = key.model_copy(update={"attempt": attempt + 1})
                assert attempt == 3 or state.claim(key, "w") is not None
    run.refresh_from_db()
    assert (run.state, run.verdict) == ("done", "met")
    kept = StageRun.objects.get(run=run, stage="load").result["sentence"]
    assert kept in ("The server did not start.", "The load stage was tried 3 times; the last time it was killed.")


def test_the_result_of_an_attempt_that_was_replaced_is_refused(run: Run, key: StageKey) -> None:
    state.claim(key, "slow")
    _expire(run)
    assert sweep().retried == 1
    assert not state.advance(key, ADMIT)
    second = _again(key, attempt=2)
    assert state.claim(second, "other") is not None
    assert not state.advance(key, ADMIT)
    assert state.advance(second, ADMIT)


def test_three_deaths_lose_the_run(run: Run, key: StageKey) -> None:
    for attempt in (1, 2, 3):
        state.claim(_again(key, attempt=attempt), "w")
        assert state.retry(_again(key, attempt=attempt), "its process was killed by signal 9")
    run.refresh_from_db()
    assert run.state == "lost"
    assert run.error["sentence"] == (
        "The admit stage was tried 3 times; the last time its process was killed by signal 9."
    )
    assert _kinds(run)[-1] == "lost"


def test_an_attempt_that_was_handed_back_does_not_count(run: Run, key: StageKey) -> None:
    for attempt in range(1, 5):
        state.claim(_again(key, attempt=attempt), "w")
        assert state.hand_back(_again(key, attempt=attempt))
        assert not state.hand_back(_again(key, attempt=attempt))
    for attempt in range(5, 8):
        run.refresh_from_db()
        assert (run.state, run.attempt) == ("queued", attempt)
        state.claim(_again(key, attempt=attempt), "w")
        assert state.retry(_again(key, attempt=attempt), "it died")
    run.refresh_from_db()
    assert run.state == "lost"
    assert run.error["sentence"] == "The admit stage was tried 3 times; the last time it died."


def test_the_sweep_leaves_a_lease_that_was_renewed(run: Run, key: StageKey) -> None:
    state.claim(key, "w")
    moment = timezone.now()
    state.beat(key)
    assert not state.retry(key, "silence", stale_since=moment)
    assert sweep().retried == 0


def test_a_failure_is_kept_and_ends_the_stage(run: Run, key: StageKey) -> None:
    state.claim(key, "w")
    failure = StageFailure(sentence="no such model", refused=True, file="config.json", field="model_type")
    assert state.fail(key, failure)
    run.refresh_from_db()
    assert run.state == "failed"
    assert run.error == failure.model_dump()
    assert run.stages.get(stage="admit").state == StageRun.State.FAILED


def test_progress_is_kept_with_its_partial_result(run: Run, key: StageKey) -> None:
    state.claim(key, "w")
    lines = [Progress(fraction=0.2, message="one", partial={"a": 1}), Progress(fraction=0.4, message="two")]
    assert state.progress(key, lines) is False
    row = run.stages.get(stage="admit")
    assert (row.progress, row.message, row.partial) == (0.4, "two", {"a": 1})
    assert _kinds(run).count("progress") == 2


def test_what_waits_is_cancelled_at_once(run: Run) -> None:
    assert state.cancel(run.id, "me")
    run.refresh_from_db()
    assert run.state == "cancelled"
    assert not state.cancel(run.id, "me")


@pytest.mark.parametrize("ending", ["stop", "advance", "retry", "hand_back"])
def test_what_runs_is_cancelled_when_its_attempt_ends(run: Run, key: StageKey, ending: str) -> None:
    state.claim(key, "w")
    assert state.beat(key) is False
    assert state.cancel(run.id, "me")
    assert state.beat(key) is True
    assert {
        "stop": lambda: state.stop(key),
        "advance": lambda: state.advance(key, ADMIT),
        "retry": lambda: state.retry(key, "it died"),
        "hand_back": lambda: state.hand_back(key),
    }[ending]()
    run.refresh_from_db()
    assert run.state == "cancelled"


def test_a_worker_cannot_stop_what_nobody_cancelled(run: Run, key: StageKey) -> None:
    state.claim(key, "w")
    assert not state.stop(key)
    run.refresh_from_db()
    assert run.state == "running"


def _minutes(minutes: float) -> WorkloadDocument:
    document = sample_results.workload()
    return document.model_copy(update={"constraints": document.constraints.model_copy(update={"minutes": minutes})})


def test_time_that_a_stage_leaves_goes_to_those_after_it(run: Run, key: StageKey) -> None:
    needed = budget.NEEDED_SECONDS
    assert seconds_left(run, "compose", _minutes(60)) == 3600 - needed["verify"]
    start = timezone.now()
    StageRun.objects.filter(run=run, stage="admit").update(
        state="done", started_at=start, finished_at=start + timedelta(seconds=2)
    )
    assert seconds_left(run, "compose", _minutes(6)) == pytest.approx(358 - needed["verify"])
    StageRun.objects.filter(run=run, stage="admit").update(finished_at=start + timedelta(seconds=900))
    assert seconds_left(run, "verify", _minutes(6)) == 20


def test_a_run_goes_to_the_first_allowed_class_that_has_a_worker(workload: Any, engineer: Any) -> None:
    assert services.create_run(workload, engineer).gpu_class == "h200"
    Worker.objects.create(name="gpu-cpu-0@here", gpu_class="cpu", last_seen=timezone.now())
    Worker.objects.create(name="gone", gpu_class="h100", last_seen=timezone.now() - timedelta(minutes=5))
    assert services.create_run(workload, engineer).gpu_class == "cpu"
    with pytest.raises(services.RunError, match="the workload allows h200, h100, cpu, not b200"):
        services.create_run(workload, engineer, gpu_class="b200")


def test_a_waiting_run_says_so_and_moves_when_a_worker_comes(run: Run, workload: Any, engineer: Any) -> None:
    fixed = services.create_run(workload, engineer, gpu_class="h200")
    assert services.waiting_for(run) == "Waiting for a worker of class h200."
    greet(Hello(worker="gpu-cpu-0@here", gpu_classes=["cpu"]))
    run.refresh_from_db()
    fixed.refresh_from_db()
    assert (run.gpu_class, services.waiting_for(run)) == ("cpu", "")
    assert (fixed.gpu_class, services.waiting_for(fixed)) == ("h200", "Waiting for a worker of class h200.")
    assert "rerouted" in _kinds(run)


@pytest.mark.django_db(transaction=True)
def test_a_broker_that_is_down_leaves_the_run_for_the_sweep(settings: Any, workload: Any, engineer: Any) -> None:
    settings.GPU_REDIS_URL = "redis://127.0.0.1:1/0"
    broker._sender_at.cache_clear()
    run = services.create_run(workload, engineer)
    run.refresh_from_db()
    assert (run.state, run.published_at) == ("queued", None)
    assert sweep().published == 0
    broker._sender_at.cache_clear()
