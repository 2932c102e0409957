"""Killing any process at any moment neither loses a run nor lets a stage count twice. Real processes, real Redis."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.waiting import alive, wait_for
from tests.workers.loadtest.stub import Stub, running_stub
from tests.workers.pipeline.stack import Stack, kill_process
from workers.documents.stages import stages_of

on_both = pytest.mark.databases("sqlite", "postgresql")  # what the database decides
on_postgresql = pytest.mark.databases("postgresql")
UUIDS = [f"GPU-of-the-test-{os.getpid()}-{index}" for index in range(4)]
"""GPUs that `nvidia-smi` lists on a host that a test makes."""


def _assert_done_once(stack: Stack, run_id: str) -> None:
    run = stack.wait(run_id)
    assert run["state"] == "done", stack.story(run_id)
    assert run["verdict"] == "met"
    assert [stage for stage, _ in stack.events(run_id, "stage_done")] == list(stages_of(load=False))


@pytest.fixture(scope="module")
def finished(stack: Stack) -> str:
    run_id = stack.submit("nothing")
    _assert_done_once(stack, run_id)
    return run_id


def test_a_run_goes_through_every_stage_and_no_celery_process_loads_torch(stack: Stack, finished: str) -> None:
    assert stack.events(finished, "claimed") == [(stage, 1) for stage in stages_of(load=False)]
    assert ("baseline", 1) in stack.events(finished, "progress")
    assert stack.api.get(f"/runs/{finished}/artifacts/profile/note.txt").text == "profile"
    for name in ("worker", "ledger", "web", "worker-api"):
        for pid in stack.tree(name):
            assert "libtorch" not in Path(f"/proc/{pid}/maps").read_text()


@on_both
def test_killing_the_worker_leaves_no_orphan_and_loses_no_run(stack: Stack) -> None:
    run_id = stack.submit("hang baseline")
    told = stack.stage_told(run_id)
    stack.kill("worker")
    wait_for(lambda: not any(map(alive, told.values())), 120, "the end of the pool's process and of the stage's")
    stack.start_worker()
    _assert_done_once(stack, run_id)
    assert stack.events(run_id, "retried") == [("baseline", 1)]


def test_orderly_stops_of_the_worker_do_not_count_as_attempts(stack: Stack) -> None:
    run_id, stops = stack.submit("pause baseline"), 2
    for attempt in range(1, stops + 1):
        stage = stack.stage_told(run_id, attempt)["pid"]
        assert stack.terminate("worker", 120, group=attempt > 1) == 0
        assert not alive(stage)
        assert stack.run(run_id)["state"] == "queued"
        stack.start_worker()
    stack.go(run_id)
    _assert_done_once(stack, run_id)
    assert stack.events(run_id, "handed_back") == [("baseline", attempt) for attempt in range(1, stops + 1)]
    assert stack.events(run_id, "retried") == []


def test_killing_redis_the_web_processes_or_the_ledger_disturbs_no_stage(stack: Stack) -> None:
    run_id = stack.submit("pause baseline")
    stack.stage_told(run_id)
    stack.kill("redis")
    stack.start_redis()
    for name in ("web", "worker-api"):
        for pid in stack.tree(name)[1:]:
            kill_process(pid)
        stack.kill(name)
        stack.start_again(name)
    stack.kill("ledger")
    stack.start_ledger()
    stack.until(stack.web_answers, "the web process")
    stack.go(run_id)
    _assert_done_once(stack, run_id)
    assert stack.events(run_id, "claimed") == [(stage, 1) for stage in stages_of(load=False)]


@on_postgresql
def test_a_crash_of_the_database_loses_no_run(stack: Stack) -> None:
    assert stack.postgres is not None
    run_id = stack.submit("pause baseline")
    stack.stage_told(run_id)
    stack.postgres.stop()
    stack.postgres.start()
    stack.go(run_id)
    _assert_done_once(stack, run_id)
    assert not list((stack.directory / "data").glob("*.sqlite3"))


def test_a_run_submitted_while_redis_is_down_is_sent_later(stack: Stack) -> None:
    stack.kill("redis")
    run_id = stack.submit("nothing")
    assert stack.run(run_id)["state"] == "queued"
    stack.start_redis()
    _assert_done_once(stack, run_id)


@on_both
def test_one_of_many_claims_wins_and_a_message_that_redis_lost_is_sent_again(stack: Stack) -> None:
    stack.kill("worker")
    claimed, lost = stack.submit("nothing"), stack.submit("nothing")
    assert stack.claim_at_once(claimed, 8) == [200] + [409] * 7
    stack.end_lease(claimed)
    stack.redis("FLUSHALL")
    stack.start_worker()
    _assert_done_once(stack, claimed)
    _assert_done_once(stack, lost)


def test_a_job_whose_worker_always_dies_is_lost_after_three_attempts(stack: Stack) -> None:
    run_id = stack.submit("pause baseline")
    for attempt in (1, 2, 3):
        worker = stack.stage_told(run_id, attempt)["worker"]
        kill_process(worker)
        wait_for(lambda worker=worker: not alive(worker), 120, "the end of the pool's process")
        stack.end_lease(run_id)
    run = stack.wait(run_id)
    assert run["state"] == "lost", stack.story(run_id)
    assert run["error"]["sentence"].startswith("The baseline stage was tried 3 times")
    assert [attempt for stage, attempt in stack.events(run_id, "claimed") if stage == "baseline"] == [1, 2, 3]


def test_cancelling_kills_the_stage_within_seconds(stack: Stack) -> None:
    run_id = stack.submit("hang baseline")
    told = stack.stage_told(run_id)
    stack.api.post(f"/runs/{run_id}/cancel").raise_for_status()
    wait_for(lambda: not alive(told["pid"]) and not alive(told["child"]), 60, "the end of the stage")
    assert stack.wait(run_id)["state"] == "cancelled"
    assert stack.api.post(f"/runs/{run_id}/cancel").status_code == 409


KEY = "sk-of-the-customer-0123456789"


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with running_stub() as result:
        yield result


def test_an_endpoint_is_measured_around_verify_and_its_key_is_written_nowhere(stack: Stack, stub: Stub) -> None:
    endpoint = {"url": stub.url, "model": "stub", "key": KEY}
    run_id = stack.submit("nothing", endpoint=endpoint, constraints={"minutes": 0.2, "gpu_classes": ["cpu"]})
    _assert_done_once(stack, run_id)
    result = stack.api.get(f"/runs/{run_id}/result").json()["results"]["verify"]["endpoint"]
    assert [item["when"] for item in result["rounds"]] == ["before verify", "after verify"], result["sentence"]
    assert result["load"]["completed"] == result["load"]["requests"] > 0
    assert {value["authorization"] for value in stub.log().values()} == {f"Bearer {KEY}"}
    files = [path for path in stack.directory.rglob("*") if path.is_file()]
    assert {"worker.log", "worker-api.log", "web.log"} <= {file.name for file in files}
    assert [file for file in files if KEY.encode() in file.read_bytes()] == []


def test_a_recording_reaches_the_load_stage_and_is_replayed_to_an_endpoint(stack: Stack, stub: Stub) -> None:
    lines = b"".join(b"%.2f,%d,3\n" % (at / 40, 10 + at % 3) for at in range(400))
    content = b"arrival_s,prompt_tokens,output_tokens\n" + lines
    recorded = {"kind": "recorded"}
    traffic = {"prompt_lengths": recorded, "output_lengths": recorded, "arrivals": recorded}
    run_id = stack.submit(
        "nothing",
        endpoint={"url": stub.url, "model": "stub"},
        constraints={"minutes": 0.5, "gpu_classes": ["cpu"]},
        load={"most_users": 4},
        traffic=traffic | {"recording": stack.hand_in(content)},
        objectives=[{"metric": "ttft", "limit": 60_000}],
    )
    assert stack.wait(run_id)["state"] == "done", stack.story(run_id)
    load = stack.api.get(f"/runs/{run_id}/result").json()["results"]["load"]
    assert load["sentence"] == f"It has {[10 + at % 3 for at in range(400)]}."
    assert load["recording"]["name"] == "calls.csv"
    curve = load["endpoint"]["limit"]
    assert curve["most_speed"] == 1
    assert [item["traffic"]["arrivals"]["speed"] for item in curve["loads"]][:2] == [1 / 64, 2 / 64]


def test_cancelling_ends_the_requests_to_an_endpoint(stack: Stack, stub: Stub) -> None:
    run_id = stack.submit("nothing", endpoint={"url": stub.url, "model": "stub"}, constraints={"minutes": 60})
    stack.until(lambda: "measuring the endpoint" in stack.story(run_id) and stub.log(), "the first request")
    stack.api.post(f"/runs/{run_id}/cancel").raise_for_status()
    assert stack.wait(run_id)["state"] == "cancelled"
    wait_for(lambda: not stub.log(), 60, "a moment in which nothing is sent any more")


def test_a_late_duplicate_changes_nothing(stack: Stack, finished: str) -> None:
    before = stack.run(finished), stack.story(finished)
    key = {"run_id": finished, "stage": "baseline", "attempt": 1}
    worker = {"Authorization": f"Bearer {stack.env['WORKER_TOKEN']}"}
    for path, body in (("claim", {"worker": "late"}), ("heartbeat", {}), ("result", {"died": "it was late"})):
        url = f"{stack.env['WORKER_API_URL']}/api/v1/worker/{path}"
        answer = httpx.post(url, json={**key, **body}, headers=worker, timeout=120)
        assert answer.status_code == 409, answer.text
    assert (stack.run(finished), stack.story(finished)) == before


def test_a_crash_is_told_in_one_sentence(stack: Stack) -> None:
    run_id = stack.submit("crash baseline")
    run = stack.wait(run_id)
    assert run["state"] == "failed"
    assert "baseline stage failed: the numbers do not add up (ValueError)" in run["error"]["sentence"]
    assert "Traceback" in (stack.directory / "worker.log").read_text()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Callable[[str], dict[str, str]]]:
    """`host(visible)`: the environment of a worker that sees the GPUs `visible` of four; its `nvidia-smi` stands in."""
    script = tmp_path / "nvidia-smi"
    lines = "".join(f"{index}, {uuid}, 143771\\n" for index, uuid in enumerate(UUIDS))
    script.write_text(f"#!/bin/sh\nprintf '{lines}'\n")
    script.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    yield lambda visible: {"PATH": path, "CUDA_VISIBLE_DEVICES": visible}
    for uuid in UUIDS:
        _lock(uuid).unlink(missing_ok=True)


def _lock(uuid: str) -> Path:
    return Path(tempfile.gettempdir()) / f"kernel-workbench-{uuid}.lock"


def _locked(uuid: str) -> bool:
    with _lock(uuid).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_stage_of_several_gpus_holds_all_of_them_and_sees_them_alone(
    stack: Stack, host: Callable[[str], dict[str, str]]
) -> None:
    stack.start_worker("pair", "h200x2", host("1,2,3"))
    run_id = stack.submit("pause admit", constraints={"gpu_classes": ["h200x2"]})
    told = stack.stage_told(run_id)
    assert told["visible"] == ",".join(UUIDS[1:3])
    assert [_locked(uuid) for uuid in UUIDS[1:3]] == [True, True]
    assert not _lock(UUIDS[3]).exists()
    stack.go(run_id)
    run = stack.wait(run_id)
    assert (run["state"], run["gpu_class"]) == ("done", "h200x2"), stack.story(run_id)
    wait_for(lambda: not any(map(_locked, UUIDS[1:3])), 60, "the end of the locks")
    stack.terminate("pair", 60)


def test_a_worker_with_too_few_gpus_ends_and_says_why(stack: Stack, host: Callable[[str], dict[str, str]]) -> None:
    stack.start_worker("few", "h200x4", host("0,1,2"))
    process = stack.processes.pop("few")
    assert process.wait(300) != 0
    assert "class h200x4 takes 4 GPUs" in (stack.directory / "few.log").read_text()
