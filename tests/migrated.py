"""A migrated SQLite database, made once for each content of the migrations: where migrating is not what is tested."""

import importlib.metadata
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path

from tests.kernels.build_cache import cached_build
from tests.programs import ROOT, python


def copy_database(data: Path) -> None:
    """Copy it to where a site with this WORKBENCH_DATA has its own. What its worker tries to build with the compiler
    is kept for the next site's.
    """
    data.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(database(), data / "db.sqlite3")
    builds = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    builds.mkdir(parents=True, exist_ok=True)
    (data / "compiler-check").symlink_to(builds)


@cache
def database() -> Path:
    migrations = sorted(ROOT.glob("workbench/*/migrations/*.py"))
    versions = [importlib.metadata.version(name).encode() for name in ("django", "django-allauth")]
    return cached_build(b"\0".join([*versions, *(file.read_bytes() for file in migrations)]), "sqlite3", _migrate)


def _migrate(file: Path) -> None:
    with tempfile.TemporaryDirectory() as data:
        python("manage.py", "migrate", "--verbosity", "0", env={"WORKBENCH_DATA": data})
        with closing(sqlite3.connect(Path(data) / "db.sqlite3")) as migrated, closing(sqlite3.connect(file)) as copy:
            migrated.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
