"""What differs on PostgreSQL: changes of the audit log, text with NUL or too long, bytes of rows, locked tables."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.debian import PostgresServer, postgres_server

AUDIT = """
from django.db import DatabaseError, connection
from workbench.audit.models import Entry
for statement in ("UPDATE audit_entry SET action = 'x'", "DELETE FROM audit_entry", "TRUNCATE audit_entry"):
    try:
        connection.cursor().execute(statement)
    except DatabaseError as error:
        print(str(error).splitlines()[0])
print(Entry.objects.get())
"""
PAGES = """
import json
from django.test import Client
from tests import sample_runs
run = sample_runs.run(voice, admin)
client = Client(raise_request_exception=False)
client.force_login(admin)
addresses = {
    "artifact": f"/runs/{run.id}/artifacts/%00/",
    "artifact of the API": f"/api/v1/runs/{run.id}/artifacts/verify/%00",
    "new workload": "/workloads/new/?model=%00",
}
found = {name: client.get(address).status_code for name, address in addresses.items()}
invited = client.post("/members/invite/", {"email": "x" * 250 + "@voice.test", "role": "engineer"})
print(json.dumps(found | {"invitation": invited.status_code}))
"""
LOCKED = """
import json, threading
from django.db import connection, transaction
from django.test import Client
from workbench.storage import database
database.WAIT_SECONDS = 1
database.wait_less()
connection.close()
holds, ends = threading.Event(), threading.Event()
def hold():
    with transaction.atomic():
        connection.cursor().execute("LOCK TABLE intake_model IN ACCESS EXCLUSIVE MODE")
        holds.set()
        ends.wait()
threading.Thread(target=hold).start()
holds.wait()
client = Client(raise_request_exception=False)
client.force_login(admin)
answers = [client.get("/models/"), client.get("/api/v1/models")]
ends.set()
print(json.dumps([[each.status_code, each["Content-Type"], each["Retry-After"]] for each in answers]))
"""
SETUP = """
import django; django.setup()
from django.core.management import call_command
from workbench.accounts import services
from workbench.accounts.models import User
call_command("migrate", verbosity=0)
admin, made = User.objects.get_or_create(email="admin@voice.test")
voice = services.create_organisation("Voice", admin) if made else admin.memberships.get().organisation
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Both tests use one, the audit log's first."""
    with postgres_server("a-password") as started:
        yield started


def _run(script: str, server: PostgresServer, root: Path, data: Path) -> list[str]:
    """The lines that the script prints, in a process that works on the server."""
    env = {**os.environ, "DATABASE_URL": server.url, "WORKBENCH_DATA": str(data), "ALLOWED_HOSTS": "testserver"}
    done: Any = subprocess.run(
        [sys.executable, "-c", SETUP + script], cwd=root, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout).splitlines()


def test_update_delete_and_truncate_of_the_audit_log_are_refused(
    server: PostgresServer, root: Path, tmp_path: Path
) -> None:
    assert _run(AUDIT, server, root, tmp_path) == [
        *["audit entries are only added"] * 3,
        "admin@voice.test: organisation.created Voice",
    ]


def test_a_locked_table_is_a_503(server: PostgresServer, root: Path, tmp_path: Path) -> None:
    assert json.loads(_run(LOCKED, server, root, tmp_path)[-1]) == [
        [503, "text/html; charset=utf-8", "5"],
        [503, "application/problem+json", "5"],
    ]


def test_text_that_the_database_refuses_is_no_error_of_the_server(
    server: PostgresServer, root: Path, tmp_path: Path
) -> None:
    assert json.loads(_run(PAGES, server, root, tmp_path)[-1]) == {
        "artifact": 404,
        "artifact of the API": 404,
        "new workload": 200,
        "invitation": 422,
    }


def test_the_bytes_of_rows_count_there_too(server: PostgresServer, root: Path) -> None:
    """The tests of the quota, which make a database of their own on the server."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/workbench/api/test_quota.py"]
    env = {**os.environ, "TEST_DATABASE_URL": server.url}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
