"""Servers as Debian packages them, each started for one test on ports and folders of its own."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.embedded.broker import free_port


def postgres_bin() -> Path | None:
    """Where Debian keeps PostgreSQL's programs, newest version first."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    return found[-1] if found else None


def nginx_bin() -> str | None:
    """Debian keeps nginx where the PATH of an ordinary user does not lead."""
    return shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


def leave_out(config: pytest.Config, items: list[pytest.Item], file: str) -> None:
    """Deselect the tests of a file, so that a skip always means something."""
    without = [item for item in items if item.path.name != file]
    config.hook.pytest_deselected(items=[item for item in items if item not in without])
    items[:] = without


@contextlib.contextmanager
def postgres_server(password: str) -> Iterator[str]:
    """The address of a PostgreSQL server with a database and a superuser `workbench`, as host:port.

    It refuses to run as root: then it runs as the user postgres.
    """
    programs, port = postgres_bin(), free_port()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="workbench-postgres-"))
    (folder / "password").write_text(password)
    become: list[str] = []
    owner = pwd.getpwuid(os.geteuid()).pw_name
    if os.geteuid() == 0:
        owner, become = "postgres", ["runuser", "-u", "postgres", "--"]
        for path in (folder, folder / "password"):
            shutil.chown(path, owner, owner)
    data, options = folder / "data", f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"

    def postgres(program: str, *arguments: str) -> None:
        env = {**os.environ, "PGPASSWORD": password}
        command = [*become, str(programs / program), *arguments]
        subprocess.run(command, check=True, cwd=folder, capture_output=True, env=env)

    try:
        postgres("initdb", "-D", str(data), "-A", "scram-sha-256", "-U", "workbench", "--pwfile", f"{folder}/password")
        postgres("pg_ctl", "-D", str(data), "-o", options, "-l", str(folder / "log"), "-w", "start")
        postgres("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "workbench", "workbench")
        yield f"127.0.0.1:{port}"
    finally:
        postgres("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
