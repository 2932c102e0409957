"""The stack of all files, on each database that a test names, and no PostgreSQL where it is not installed."""

import contextlib
import shutil
from collections.abc import Iterator

import pytest

from tests.debian import postgres_bin, postgres_server
from tests.workers.pipeline.stack import Stack

ENDPOINTS = {"ENDPOINT_PRIVATE_HOSTS": "127.0.0.1"}
SQLITE, POSTGRESQL = "sqlite", "postgresql"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test runs on SQLite and the embedded Redis, or on the databases of its mark `databases`."""
    if "stack" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("databases")
        metafunc.parametrize("stack", mark.args if mark else [SQLITE], indirect=True, scope="package")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects, so that a skip always means something."""
    if postgres_bin() and shutil.which("redis-server"):
        return
    without = [item for item in items if f"[{POSTGRESQL}]" not in item.name]
    config.hook.pytest_deselected(items=[item for item in items if item not in without])
    items[:] = without


@pytest.fixture(scope="package")
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Every process of the pipeline; on PostgreSQL also with Redis as Debian packages it."""
    with contextlib.ExitStack() as servers:
        if request.param == POSTGRESQL:
            postgres = servers.enter_context(postgres_server("a-password"))
            stack = Stack(tmp_path_factory.mktemp("stack"), postgres, redis_server=str(shutil.which("redis-server")))
        else:
            stack = Stack(tmp_path_factory.mktemp("stack"), settings=ENDPOINTS)
        servers.callback(stack.stop)
        stack.start()
        yield stack


@pytest.fixture(autouse=True)
def _recovered(stack: Stack) -> Iterator[None]:
    """No test waits for what another one left."""
    yield
    stack.recover()
