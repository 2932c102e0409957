"""What tests of candidates and of choices share."""

import pytest

from kernels import registry


@pytest.fixture
def plant(monkeypatch):
    """Registers variants for one test."""

    def put(*classes):
        for each in classes:
            monkeypatch.setitem(registry._variants, each.name, each())

    registry.variants()
    return put
