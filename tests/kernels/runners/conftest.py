"""Random ids."""

import pytest
import torch


@pytest.fixture
def random_ids() -> torch.Tensor:
    """[2, 26] ids that no two test runs change."""
    return torch.randint(3, 300, (2, 26), generator=torch.Generator().manual_seed(5))
