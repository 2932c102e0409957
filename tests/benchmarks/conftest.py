"""Leaves out the load on the site where Debian's PostgreSQL and Redis are not installed."""

import shutil

import pytest

from tests.debian import leave_out, postgres_bin


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not (postgres_bin() and shutil.which("redis-server")):
        leave_out(config, items, "test_web_load.py")
