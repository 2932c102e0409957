"""Leaves out the test against Debian's PostgreSQL where it is not installed."""

import pytest

from tests.debian import leave_out, postgres_bin


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not postgres_bin():
        leave_out(config, items, "test_on_postgresql.py")
