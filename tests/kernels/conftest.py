"""What tests of candidates and of choices share."""

import pytest
import torch

from kernels import registry


@pytest.fixture(autouse=True)
def same_draws():
    """What a test draws does not depend on the tests before it in its process."""
    torch.manual_seed(0)


@pytest.fixture
def plant(monkeypatch):
    """Registers variants for one test."""

    def put(*classes):
        for item in classes:
            monkeypatch.setitem(registry._variants, item.name, item())

    registry.variants()
    return put
