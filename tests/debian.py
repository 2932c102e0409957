"""Servers as Debian packages them, each started for one test on ports and folders of its own."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels.load.server_process import reserve_port


def postgres_bin() -> Path | None:
    """Where Debian keeps PostgreSQL's programs, newest version first."""
    result = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    return result[-1] if result else None


def nginx_bin() -> str | None:
    """Debian keeps nginx where the PATH of an ordinary user does not lead."""
    return shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


def leave_out(config: pytest.Config, items: list[pytest.Item], file: str) -> None:
    """Deselect the tests of a file, so that a skip always means something."""
    without = [item for item in items if item.path.name != file]
    config.hook.pytest_deselected(items=[item for item in items if item not in without])
    items[:] = without


class PostgresServer:
    """A PostgreSQL server with a database and a superuser `workbench`, on 127.0.0.1; `address` is host:port.

    It refuses to run as root: then it runs as the user postgres.
    """

    def __init__(self, folder: Path, password: str, durable: bool = False) -> None:
        self.folder, self.password, port = folder, password, reserve_port()
        self.address = f"127.0.0.1:{port}"
        self.url = f"postgres://workbench:{password}@{self.address}/workbench"
        self.become: list[str] = []
        (folder / "password").write_text(password)
        if os.geteuid() == 0:
            self.become = ["runuser", "-u", "postgres", "--"]
            for path in (folder, folder / "password"):
                shutil.chown(path, "postgres", "postgres")
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync={'on' if durable else 'off'}"
        self._begin = ("-o", options, "-l", str(folder / "log"), "-w", "start")
        passwords = ("-U", "workbench", "--pwfile", f"{folder}/password")
        self._run("initdb", "-D", str(folder / "data"), "-A", "scram-sha-256", *passwords)
        self.start()
        self._run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "workbench", "workbench")

    def start(self) -> None:
        """Start it, and return when it answers."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), *self._begin)

    def stop(self) -> None:
        """End it at once, with every connection, as a crash would; it recovers as it starts."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        programs = postgres_bin()
        assert programs is not None
        command = [*self.become, str(programs / program), *arguments]
        env = {**os.environ, "PGPASSWORD": self.password}
        subprocess.run(command, check=True, cwd=self.folder, capture_output=True, env=env)


@contextlib.contextmanager
def postgres_server(password: str, durable: bool = False) -> Iterator[PostgresServer]:
    """A server in a folder of its own. Unless it is `durable` it never waits for the disk."""
    folder = Path(tempfile.mkdtemp(prefix="workbench-postgres-"))
    server: PostgresServer | None = None
    try:
        server = PostgresServer(folder, password, durable)
        yield server
    finally:
        if server:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
