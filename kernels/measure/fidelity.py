"""Distance of a runner's logits from the float32 model's. With generated weights it is fidelity, not quality."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from kernels.runners import Runner

LENGTH = 128
"""Tokens of a sequence."""


def distances(expected: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """KL divergence in nats [...] float64, and whether another token is the most likely [...], of two log-probabilities
    [..., vocab]; NaN where logits are none.
    """
    kl = (expected.exp() * (expected - logits)).sum(-1).double()
    return kl, expected.argmax(-1) != logits.argmax(-1)


@dataclass
class Fidelity:
    """Mean KL divergence from the float32 model in nats, and the share of positions with another most likely token."""

    tokens: int = 0
    kl: float = 0.0
    disagreement: float = 0.0

    def add(self, expected: Tensor, logits: Tensor) -> None:
        """Log-probabilities [batch, length, vocab] of the float32 model and of the runner."""
        count = expected.shape[0] * expected.shape[1]
        divergence, differs = distances(expected, logits)
        kl, other = float(divergence.mean()), float(differs.double().mean())
        share = count / (self.tokens + count)
        self.kl += (kl - self.kl) * share
        self.disagreement += (other - self.disagreement) * share
        self.tokens += count


@torch.no_grad()
def fidelity(
    expected: Iterable[Tensor], runners: "Mapping[str, Runner]", ids: Tensor, batch: int
) -> dict[str, Fidelity]:
    """Teacher-forced over ids [sequences, length]. `expected`: float32's logits [batch, length, vocab] of batches."""
    distances = {name: Fidelity() for name in runners}
    for exact, rows in zip(expected, ids.split(batch), strict=True):
        for name, runner in runners.items():
            log_probabilities = torch.log_softmax(runner.logits(rows).float(), dim=-1)
            distances[name].add(torch.log_softmax(exact.to(log_probabilities.device), dim=-1), log_probabilities)
    return distances
