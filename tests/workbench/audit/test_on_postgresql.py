"""PostgreSQL refuses to change the audit log as SQLite does."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.debian import postgres_server

REFUSED = """
import django; django.setup()
from django.core.management import call_command
from django.db import DatabaseError, connection
from workbench.accounts import services
from workbench.accounts.models import User
from workbench.audit.models import Entry
call_command("migrate", verbosity=0)
services.create_organisation("Voice", User.objects.create_user("admin@voice.test"))
for statement in ("UPDATE audit_entry SET action = 'x'", "DELETE FROM audit_entry", "TRUNCATE audit_entry"):
    try:
        connection.cursor().execute(statement)
    except DatabaseError as error:
        print(str(error).splitlines()[0])
print(Entry.objects.get())
"""


def test_update_delete_and_truncate_are_refused(root: Path) -> None:
    with postgres_server("a-password") as server:
        done: Any = subprocess.run(
            [sys.executable, "-c", REFUSED],
            cwd=root,
            env={**os.environ, "DATABASE_URL": server.url},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        *["audit entries are only added"] * 3,
        "admin@voice.test: organisation.created Voice",
    ]
