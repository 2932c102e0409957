"""Compiler caches that last for the session, and ids."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def compiler_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One directory for what Inductor compiles, unless the surroundings name one."""
    directory = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or tmp_path_factory.mktemp("inductor"))
    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(directory)
    yield
    if before is None:
        del os.environ["TORCHINDUCTOR_CACHE_DIR"]


@pytest.fixture
def random_ids() -> torch.Tensor:
    """[2, 36] ids that no two test runs change."""
    return torch.randint(3, 300, (2, 36), generator=torch.Generator().manual_seed(5))
