"""A database that is locked for longer than a lease: the workbench could hear no worker, so no attempt is counted."""

import contextlib
import sqlite3
import time

from tests.workers.pipeline.stack import FAST, Stack


def test_it_costs_no_attempt(stack: Stack) -> None:
    run_id = stack.submit("pause baseline")
    stack.stage_told(run_id)
    with contextlib.closing(sqlite3.connect(stack.directory / "data" / "db.sqlite3", timeout=120)) as other:
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        time.sleep(float(FAST["LEASE_SECONDS"]) + 10)
        other.execute("ROLLBACK")
    stack.go(run_id)
    run = stack.wait(run_id)
    assert run["state"] == "done"
    assert stack.events(run_id, "retried") == []
    assert ("baseline", 1) in stack.events(run_id, "claimed")
