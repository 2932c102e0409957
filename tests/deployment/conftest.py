"""Helm, and no test of the compose file's processes where Debian's servers are not installed."""

import shutil

import pytest

from tests.debian import leave_out, nginx_bin, postgres_bin
from tests.deployment.helm import Helm, unpacked


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    programs = [postgres_bin(), nginx_bin(), *map(shutil.which, ("redis-server", "openssl", "curl", "prometheus"))]
    if not all(programs):
        leave_out(config, items, "test_compose_processes.py")


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(unpacked(tmp_path_factory.mktemp("helm")))
