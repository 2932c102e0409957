"""What every test shares: its own data directory, few threads, and GPU tests only where there is a GPU."""

import gc
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests.kernels.build_cache import folder, machine_digest
from tests.migrated import database

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GOMP_SPINCOUNT", "20000")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workbench.settings")
os.environ["WORKBENCH_DATA"] = tempfile.mkdtemp(prefix="workbench-test-")
# What Inductor compiles is kept for later runs, by the processor's vector instructions and torch's version.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder() / f"inductor-{machine_digest('torch')}"))
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")  # else 10 CPU seconds of trial builds for each new cache
for name in (
    "DATABASE_URL",
    "REDIS_URL",
    "GPU_REDIS_URL",
    "CACHE_URL",
    "WORKBENCH_URL",
    "WORKER_API_URL",
    "WORKBENCH_TOKEN",
):
    os.environ.pop(name, None)
if "TEST_DATABASE_URL" in os.environ:  # another database than SQLite, as test_on_postgresql.py does
    os.environ["DATABASE_URL"] = os.environ["TEST_DATABASE_URL"]
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")  # neither chance nor the machine's speed decides
gc.disable()  # until everything is collected: searching what stays takes a third of the time


SLOWEST = (
    "tests/workers/pipeline/",
    "tests/browser/",
    "tests/workers/stages/test_load.py",
    "tests/kernels/megakernel/test_compile.py",
    "tests/workbench/embedded/",
    "tests/workers/host/test_stage_process.py",
    "tests/deployment/",
    "tests/kernels/test_interpreted.py",
    "tests/kernels/gemm/test_on_cpu.py",
)
"""Files that take longest, the longest first: begun last, one would have the machine to itself."""


def has_gpu() -> bool:
    """Whether the driver's tool lists a GPU; asked without torch."""
    if not shutil.which("nvidia-smi"):
        return False
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    return listed.startswith("GPU")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put what takes longest first, and leave out the tests that need a GPU where there is none.

    GPU tests are deselected, so that a skip always means something.
    """
    items.sort(key=lambda item: next((at for at, name in enumerate(SLOWEST) if item.nodeid.startswith(name)), 99))
    if has_gpu():
        return
    gpu_tests = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_tests:
        config.hook.pytest_deselected(items=gpu_tests)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]


def pytest_collection_finish() -> None:
    """Leave what collecting made to no later garbage collection.

    Of the whole suite these are 800,000 objects, which last until the end; each release of a runner would search them.
    """
    gc.freeze()
    gc.enable()


class _TogetherInAFolder(LoadFileScheduling):
    """A file at a time, but each of FOLDERS in one process: every file would start a site and make runs of its own."""

    FOLDERS = ("tests/browser/", "tests/workers/pipeline/")

    def _split_scope(self, nodeid: str) -> str:
        return next((item for item in self.FOLDERS if nodeid.startswith(item)), None) or super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """How `--dist loadfile` deals the tests out."""
    return _TogetherInAFolder(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(os.environ["WORKBENCH_DATA"], ignore_errors=True)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> Iterator[None]:
    """The test database has been migrated, before Django opens it by its name."""
    if "DATABASE_URL" in os.environ:
        yield
        return
    with closing(sqlite3.connect("file:memorydb_default?mode=memory&cache=shared", uri=True)) as memory:
        with closing(sqlite3.connect(database())) as migrated:
            migrated.backup(memory)
        yield


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """The database without the audit log's triggers: they refuse the deletion by which some tests clean up."""
    from django.db import connection

    from workbench.audit import triggers

    with django_db_blocker.unblock():
        triggers.drop(connection)
