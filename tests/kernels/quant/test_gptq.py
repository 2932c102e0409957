"""GPTQ: the codes of the formats, less error in the products, and the same codes each time."""

import pytest
import torch

from kernels.quant.gptq import gptq
from kernels.quant.quantised_matrix import QUANTISERS

LOWER = ("fp8", "nvfp4", "int4")


def correlated(columns: int, seed: int) -> torch.Tensor:
    """Inputs [512, columns] of which neighbours are alike, as activations are."""
    chance = torch.Generator().manual_seed(seed)
    mixed = torch.randn(columns // 4, columns, generator=chance)
    return torch.randn(512, columns // 4, generator=chance) @ mixed + 0.1 * torch.randn(512, columns, generator=chance)


def weight(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


@pytest.mark.parametrize("weights", LOWER)
def test_it_makes_errors_good_where_inputs_are_alike_and_rounds_to_nearest_elsewhere(weights: str) -> None:
    """Matrices that are rounded together are those rounded alone."""
    w, x = weight(48, 192), correlated(192, 1)
    rounded = gptq(w[None], (x.T @ x)[None], weights)[0]
    errors = [(x @ (value.values().float() - w.float()).T).norm() for value in (rounded, QUANTISERS[weights](w))]
    assert errors[0] < 0.5 * errors[1]
    w = weight(24, 160)
    rounded, nearest = gptq(w[None], torch.eye(160)[None], weights)[0], QUANTISERS[weights](w)
    assert torch.equal(rounded.values(), nearest.values())
    w, x = weight(16, 32), correlated(32, 5)
    x[:, 16:] = 0
    rounded, nearest = gptq(w[None], (x.T @ x)[None], weights)[0], QUANTISERS[weights](w)
    assert torch.equal(rounded.values()[:, 16:], nearest.values()[:, 16:])
    both = torch.stack([weight(16, 64, seed) for seed in (1, 2)])
    moments = torch.stack([x.T @ x for x in (correlated(64, 3), correlated(64, 4))])
    together = gptq(both, moments, weights)
    alone = [gptq(both[at : at + 1], moments[at : at + 1], weights)[0] for at in range(2)]
    assert all(torch.equal(one.values(), other.values()) for one, other in zip(together, alone, strict=True))


def test_what_cannot_be_rounded_is_refused() -> None:
    with pytest.raises(ValueError, match="24 columns are no multiple of 16"):
        gptq(torch.zeros(1, 16, 24), torch.eye(24)[None], "nvfp4")
    with pytest.raises(ValueError, match="not finite"):
        gptq(torch.full((1, 16, 16), float("nan")), torch.eye(16)[None], "fp8")
    with pytest.raises(ValueError, match="int8 is rounded to nearest"):
        gptq(torch.ones(1, 16, 16), torch.eye(16)[None], "int8")
