"""The stages of a run share a process; neither its end nor a locked database loses anything. Real processes."""

import contextlib
import json
import sqlite3
import time

from benchmarks.panel import starts_and_loads
from tests.waiting import alive
from tests.workers.pipeline.stack import FAST, Stack, kill_process
from workers.documents.stages import GPU_STAGES, Results, stages_of

STAGES = tuple(stage for stage in GPU_STAGES if stage != "load")


def test_killing_the_process_in_a_stage_loses_nothing(stack: Stack) -> None:
    run_id = stack.submit("hang verify")
    told = stack.stage_told(run_id)
    kill_process(told["pid"])
    assert stack.wait(run_id)["state"] == "done", stack.story(run_id)
    assert [each for each, _ in stack.events(run_id, "stage_done")] == list(stages_of(load=False))
    assert stack.events(run_id, "retried") == [("verify", 1)]
    assert not alive(told["child"])


def test_the_stages_of_a_run_share_a_process_and_take_one_message(stack: Stack) -> None:
    run_id = stack.submit("tell everywhere")
    assert stack.wait(run_id)["state"] == "done", stack.story(run_id)
    items = stack.api.get(f"/runs/{run_id}/events", params={"limit": 1000}).json()["items"]
    text = [json.loads(item["message"]) for item in items if item["message"].startswith("{")]
    assert len(text) == len(STAGES)
    assert len({item["pid"] for item in text}) == 1
    results = Results.model_validate(stack.api.get(f"/runs/{run_id}/result").json()["results"])
    start = results.baseline.environment.seconds_of_starts_and_loads
    assert start
    assert results.verify.environment.seconds_of_starts_and_loads == 0, "its process ran, and it loads nothing"
    assert starts_and_loads(results) == round(start, 1)
    lines = (stack.directory / "worker.log").read_text().splitlines()
    dropped = [line for line in lines if run_id in line and "dropped" in line]
    later = [item for item in dropped if f"stage {STAGES[0]} of" not in item]  # that message may be sent twice
    assert not later, "the worker was sent messages about stages that it had already"


def test_a_database_that_is_locked_for_longer_than_a_lease_costs_no_attempt(stack: Stack) -> None:
    run_id = stack.submit("pause baseline")
    stack.stage_told(run_id)
    with contextlib.closing(sqlite3.connect(stack.directory / "data" / "db.sqlite3", timeout=120)) as other:
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        time.sleep(float(FAST["LEASE_SECONDS"]) + 2)
        other.execute("ROLLBACK")
    stack.go(run_id)
    assert stack.wait(run_id)["state"] == "done"
    assert stack.events(run_id, "retried") == []
    assert ("baseline", 1) in stack.events(run_id, "claimed")
