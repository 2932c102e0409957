"""The state machine: who holds an attempt may change it, once; everybody else changes nothing."""

from datetime import timedelta
from typing import Any

import pytest
import sample_results
from django.utils import timezone

from workbench.runs import services, state
from workbench.runs.models import Event, Run, StageRun
from workbench.runs.services import seconds_left
from workbench.runs.sweep import sweep
from workbench.runs.workers import greet
from workers.documents import budget
from workers.documents.stages import Progress, Results, StageFailure, stages_of
from workers.documents.worker_api import Hello, StageKey
from workers.documents.workload import Workload as WorkloadDocument

ADMIT: dict[str, Any] = sample_results.results().admit.model_dump(mode="json")  # type: ignore[union-attr]


def _again(key: StageKey, **changes: Any) -> StageKey:
    return key.model_copy(update=changes)


def _expire(run: Run) -> None:
    Run.objects.filter(id=run.id).update(lease_until=timezone.now() - timedelta(seconds=1))


def _kinds(run: Run) -> list[str]:
    return list(Event.objects.filter(run=run).values_list("kind", flat=True))


def test_a_new_run_waits_and_a_result_queues_its_next_stage_once_if_it_is_claimed(run, key):
    assert (run.state, run.stage, run.attempt) == ("queued", "admit", 1)
    assert list(run.stages.values_list("stage", flat=True)) == list(stages_of(load=False))
    assert _kinds(run) == ["queued"]
    assert not state.advance(key, ADMIT)
    assert not state.fail(key, StageFailure(sentence="no"))
    assert not state.retry(key, "no")
    assert state.extend_lease(key) is None
    run.refresh_from_db()
    assert run.state == "queued"
    state.claim(key, "w")
    assert state.advance(key, ADMIT)
    assert not state.advance(key, ADMIT)
    run.refresh_from_db()
    assert (run.state, run.stage, run.attempt, run.worker) == ("queued", "baseline", 1, "")
    assert _kinds(run).count("stage_done") == 1
    assert services.results(run).admit is not None


def test_an_attempt_is_claimed_once_and_no_other_attempt_stage_or_class(run, key):
    assert state.claim(_again(key, attempt=2), "w") is None
    assert state.claim(_again(key, stage="verify"), "w") is None
    assert state.claim(key, "w", gpu_class="b200") is None
    assert state.claim(key, "first", gpu_class=run.gpu_class) is not None
    assert state.claim(key, "second") is None
    assert not state.stop(key), "nobody has cancelled it"
    run.refresh_from_db()
    assert (run.state, run.worker) == ("running", "first")


def _advance(run, results, *stages, changes=None):
    """Each of these stages is claimed and has its result, `price` with these changes of what a token costs after."""
    for stage in stages:
        key = StageKey(run_id=str(run.id), stage=stage, attempt=1)
        assert state.claim(key, "w") is not None
        document = getattr(results, stage)
        document = document.model_dump(mode="json") if document else {}
        if stage == "price":
            document["same_load"]["after"] |= changes or {}
        assert state.advance(key, document)
    run.refresh_from_db()


@pytest.mark.parametrize("basis", ["measured", "modelled"])
def test_the_last_stage_finishes_the_run_with_its_verdict_and_a_cost_that_is_not_assumed(run, basis):
    results = sample_results.results()
    changes = {"price_basis": "modelled"} if basis == "modelled" else {}
    _advance(run, results, *stages_of(load=False)[:-1], changes=changes)
    assert run.usd_after == (None if changes else results.price.same_load.usd_after.value)
    _advance(run, results, "report")
    assert (run.state, run.verdict) == ("done", "met")
    assert run.finished_at is not None


@pytest.mark.parametrize("end", ["fail", "retry"])
def test_a_load_stage_that_fails_leaves_a_sentence_and_the_verdict(end, workload, engineer):
    workload.document |= {"load": {"most_users": 4}}
    workload.save()
    run, results = services.create_run(workload, engineer), sample_results.results()
    before, after = stages_of(load=True)[: (at := stages_of(load=True).index("load"))], stages_of(load=True)[at + 1 :]
    _advance(run, results, *before)
    for attempt in (1,) if end == "fail" else (1, 2, 3):
        key = StageKey(run_id=str(run.id), stage="load", attempt=attempt)
        assert state.claim(key, "w") is not None
        failed = StageFailure(sentence="The server did not start.")
        assert state.fail(key, failed) if end == "fail" else state.retry(key, "it was killed")
    _advance(run, results, *after)
    assert (run.state, run.verdict) == ("done", "met")
    sentence = StageRun.objects.get(run=run, stage="load").result["sentence"]
    lost = "The load stage was tried 3 times; the last time it was killed."
    assert sentence == ("The server did not start." if end == "fail" else lost)


def test_the_result_of_an_attempt_that_was_replaced_is_refused(run, key):
    state.claim(key, "slow")
    _expire(run)
    assert sweep().retried == 1
    assert not state.advance(key, ADMIT)
    second = _again(key, attempt=2)
    assert state.claim(second, "other") is not None
    assert not state.advance(key, ADMIT)
    assert state.advance(second, ADMIT)


def test_three_deaths_lose_the_run_and_an_attempt_that_was_handed_back_does_not_count(run, key):
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
    assert (run.state, _kinds(run)[-1]) == ("lost", "lost")
    assert run.error["sentence"] == "The admit stage was tried 3 times; the last time it died."


def test_the_sweep_leaves_a_lease_that_was_renewed(run, key):
    state.claim(key, "w")
    moment = timezone.now()
    state.extend_lease(key)
    assert not state.retry(key, "silence", stale_since=moment)
    assert sweep().retried == 0


def test_progress_is_kept_with_its_partial_result_and_a_failure_ends_the_stage(run, key):
    state.claim(key, "w")
    lines = [Progress(fraction=0.2, message="one", partial={"a": 1}), Progress(fraction=0.4, message="two")]
    assert state.progress(key, lines) is False
    row = run.stages.get(stage="admit")
    assert (row.progress, row.message, row.partial) == (0.4, "two", {"a": 1})
    assert _kinds(run).count("progress") == 2
    state.claim(key, "w")
    failure = StageFailure(sentence="no such model", refused=True, file="config.json", field="model_type")
    assert state.fail(key, failure)
    run.refresh_from_db()
    assert run.state == "failed"
    assert run.error == failure.model_dump()
    assert run.stages.get(stage="admit").state == StageRun.State.FAILED


ENDINGS = {
    "stop": state.stop,
    "advance": lambda key: state.advance(key, ADMIT),
    "retry": lambda key: state.retry(key, "it died"),
    "hand_back": state.hand_back,
}


@pytest.mark.parametrize("ending", ["none", *ENDINGS])
def test_what_waits_is_cancelled_at_once_and_what_runs_when_its_attempt_ends(run, key, ending):
    if ending != "none":
        state.claim(key, "w")
        assert state.extend_lease(key) is False
    assert state.cancel(run.id, "me")
    if ending != "none":
        assert state.extend_lease(key) is True
        assert ENDINGS[ending](key)
    run.refresh_from_db()
    assert run.state == "cancelled"
    assert not state.cancel(run.id, "me")


def _minutes(minutes: float) -> WorkloadDocument:
    document = sample_results.workload()
    return document.model_copy(update={"constraints": document.constraints.model_copy(update={"minutes": minutes})})


def test_time_that_a_stage_leaves_goes_to_those_after_it(run, key):
    needed = budget.NEEDED_SECONDS
    assert seconds_left(run, "compose", _minutes(60), Results()) == 3600 - needed["verify"]
    start = timezone.now()
    StageRun.objects.filter(run=run, stage="admit").update(
        state="done", started_at=start, finished_at=start + timedelta(seconds=2)
    )
    assert seconds_left(run, "compose", _minutes(6), Results()) == pytest.approx(358 - needed["verify"])
    StageRun.objects.filter(run=run, stage="admit").update(finished_at=start + timedelta(seconds=900))
    assert seconds_left(run, "verify", _minutes(6), Results()) == 20


def test_a_waiting_run_says_so_and_moves_when_a_worker_comes(run, workload, engineer):
    fixed = services.create_run(workload, engineer, gpu_class="h200")
    assert services.waiting_for(run) == "Waiting for a worker of class h200."
    greet(Hello(worker="gpu-cpu-0@here", gpu_classes=["cpu"]))
    run.refresh_from_db()
    fixed.refresh_from_db()
    assert (run.gpu_class, services.waiting_for(run)) == ("cpu", "")
    waits = "Waiting for a worker of class h200. None is running; workers of class cpu are."
    assert (fixed.gpu_class, services.waiting_for(fixed)) == ("h200", waits)
    assert "rerouted" in _kinds(run)
