"""The search for the smallest logit that top-k and top-p keep; all SMs take part. Imports without torch."""

import numpy as np

from kernels.ops.sampling import Sampling
from tests.kernels.megakernel.interpreter.words import Floats

AREAS = 2
SPAN = 16.0
"""Distance below the largest logit that the first round divides finely, in temperatures; the last bin has the rest."""
WIDER = 32.0
FOUND, COUNT, MASS = range(3)
LOWEST, HIGHEST = np.float32(-np.inf), np.float32(np.inf)


def area_of(round_: int) -> int:
    return round_ % AREAS


def flag_of(round_: int) -> np.uint64:
    """The flag of a round's words; never 0, the value of words before the launch."""
    return np.uint64(round_ % 0xFFFF + 1)


class ThresholdSearch:
    """The bracket of one sequence; `threshold` is the smallest logit kept, once `goal` is FOUND."""

    def __init__(self, how: Sampling, vocab: int, largest: np.float32, bins: int) -> None:
        self.how, self.largest, self.bins = how, largest, bins
        self.top_k = how.top_k if how.top_k < vocab else 0
        self.goal = COUNT if self.top_k else MASS
        if how.greedy or not (self.top_k or how.top_p < 1) or not np.isfinite(largest):
            self.goal = FOUND
        self.threshold = self.low = LOWEST
        self.top = HIGHEST
        self.width = np.float32(SPAN * how.temperature / bins)
        self.above = np.zeros(2, dtype=np.float32)  # mass and count of the tokens from `top` on
        self.wanted: np.float32 | None = np.float32(self.top_k) if self.top_k else None

    def edges(self) -> Floats:
        """The lower edges of the bins [bins], falling; the last is `low`."""
        part = np.arange(1, self.bins + 1, dtype=np.float32)
        start = min(self.top, self.largest)
        with np.errstate(over="ignore"):
            if self.low == LOWEST:
                edges = start - self.width * part
            else:
                edges = np.maximum(self.low, start - (start - self.low) * (part / np.float32(self.bins)))
        edges[-1] = self.low
        return edges

    def bins_of(self, logits: Floats) -> tuple[Floats, Floats]:
        """Mass and count [bins] of `logits` in each bin."""
        if self.goal == FOUND:
            return np.zeros(self.bins, dtype=np.float32), np.zeros(self.bins, dtype=np.float32)
        inside = logits[(logits < self.top) & (logits >= self.low)]
        at = np.searchsorted(-self.edges(), -inside)
        weights = np.exp((inside - self.largest) / np.float32(self.how.temperature))
        mass = np.bincount(at, weights, self.bins).astype(np.float32)
        return mass, np.bincount(at, minlength=self.bins).astype(np.float32)

    def narrow(self, mass: Floats, count: Floats) -> None:
        """Makes the bin that reaches the goal the new bracket, given the sums over all SMs."""
        before = np.concatenate([self.above[:, None], self.above[:, None] + np.cumsum([mass, count], axis=1)], axis=1)
        before, through = before[:, :-1].astype(np.float32), before[:, 1:].astype(np.float32)
        if self.wanted is None:
            self.wanted = through[0, -1] * np.float32(self.how.top_p)
        reached = through[1 if self.goal == COUNT else 0] >= self.wanted
        at = int(np.argmax(reached)) if reached.any() else self.bins - 1
        edges = self.edges()
        low, top = edges[at], edges[at - 1] if at else self.top
        settled = through[1, at] == self.wanted if self.goal == COUNT else count[at] == 1
        if settled or (low, top) == (self.low, self.top):
            self._settle(low, through[0, at])
        else:
            self.above, self.low, self.top = before[:, at], low, top
            with np.errstate(over="ignore"):
                self.width *= np.float32(WIDER)

    def _settle(self, threshold: np.float32, mass: np.float32) -> None:
        self.threshold = threshold
        if self.goal == COUNT and self.how.top_p < 1:  # now the nucleus of what top-k has kept
            self.goal, self.wanted = MASS, np.float32(self.how.top_p) * mass
            self.above, self.low, self.top = np.zeros(2, dtype=np.float32), threshold, HIGHEST
        else:
            self.goal = FOUND
