"""The same processes against PostgreSQL and Redis as Debian packages them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.debian import postgres_server
from tests.workers.pipeline.stack import Stack, alive, kill_process
from workers.documents.stages import STAGES


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with postgres_server("a-password") as address:
        url = f"postgres://workbench:a-password@{address}/workbench"
        stack = Stack(tmp_path / "stack", url, redis_server=str(shutil.which("redis-server")))
        try:
            stack.start()
            yield stack
        finally:
            stack.stop()


def test_the_pipeline_survives_on_postgresql_and_debians_redis(stack: Stack) -> None:
    run_id = stack.submit("hang baseline")
    told = stack.stage_told(run_id)
    kill_process(told["pid"])
    run = stack.wait(run_id)
    assert run["state"] == "done", stack.story(run_id)
    assert [stage for stage, _ in stack.events(run_id, "stage_done")] == list(STAGES)
    assert stack.events(run_id, "retried") == [("baseline", 1)]
    assert not alive(told["child"])
    stack.kill("worker")
    assert stack.claim_at_once(stack.submit("nothing"), 8) == [200] + [409] * 7
    assert not list((stack.directory / "data").glob("*.sqlite3"))
