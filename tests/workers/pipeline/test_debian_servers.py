"""The same processes against PostgreSQL and Redis as Debian packages them."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.pipeline.conftest import postgres_bin
from tests.workers.pipeline.stack import Stack, alive, kill_process
from workbench.embedded.broker import free_port
from workers.documents.stages import STAGES


@pytest.fixture
def database_url() -> Iterator[str]:
    """A PostgreSQL server of our own; as root it runs as the user postgres, since it refuses to run as root."""
    programs, port = postgres_bin(), free_port()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="workbench-postgres-"))
    become: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
        become = ["runuser", "-u", "postgres", "--"]
    owner = "postgres" if become else pwd.getpwuid(os.geteuid()).pw_name
    data, options = folder / "data", f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"

    def postgres(program: str, *arguments: str) -> None:
        subprocess.run([*become, str(programs / program), *arguments], check=True, cwd=folder, capture_output=True)

    try:
        postgres("initdb", "-D", str(data), "-A", "trust", "-U", owner)
        postgres("pg_ctl", "-D", str(data), "-o", options, "-l", str(folder / "log"), "-w", "start")
        postgres("createdb", "-h", str(folder), "-p", str(port), "-U", owner, "workbench")
        yield f"postgres://{owner}@127.0.0.1:{port}/workbench"
    finally:
        postgres("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def test_the_pipeline_survives_on_postgresql_and_debians_redis(database_url: str, tmp_path: Path) -> None:
    stack = Stack(tmp_path / "stack", database_url, redis_server=str(shutil.which("redis-server")))
    try:
        stack.start()
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
        assert not list((tmp_path / "stack" / "data").glob("*.sqlite3"))
    finally:
        stack.stop()
