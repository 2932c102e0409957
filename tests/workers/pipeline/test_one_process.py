"""The stages of a run share a process; killing it in any of them loses nothing. Real processes, real Redis."""

import json
from pathlib import Path

import pytest

from tests.workers.pipeline.stack import Stack, alive, kill_process
from workers.documents.stages import GPU_STAGES, stages_of

STAGES = tuple(each for each in GPU_STAGES if each != "load")


@pytest.mark.parametrize("stage", STAGES)
def test_killing_the_process_in_any_stage_loses_nothing(stack: Stack, stage: str) -> None:
    run_id = stack.submit(f"hang {stage}")
    told = stack.stage_told(run_id)
    kill_process(told["pid"])
    assert stack.wait(run_id)["state"] == "done", stack.story(run_id)
    assert [each for each, _ in stack.events(run_id, "stage_done")] == list(stages_of(load=False))
    assert stack.events(run_id, "retried") == [(stage, 1)]
    assert not alive(told["child"])


def test_the_stages_of_a_run_share_a_process_and_take_one_message(stack: Stack) -> None:
    run_id = stack.submit("tell everywhere")
    assert stack.wait(run_id)["state"] == "done", stack.story(run_id)
    items = stack.api.get(f"/runs/{run_id}/events", params={"limit": 1000}).json()["items"]
    said = [json.loads(each["message"]) for each in items if each["message"].startswith("{")]
    assert len(said) == len(STAGES)
    assert len({each["pid"] for each in said}) == 1
    log = (stack.directory / "worker.log").read_text()
    assert "dropped" not in log, "the worker was sent messages about stages that it had already"
    assert "409" not in (Path(stack.directory) / "worker-api.log").read_text()
