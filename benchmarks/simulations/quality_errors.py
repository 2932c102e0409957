"""How often a plan that loses too much is accepted, simulated.

    python -m benchmarks.simulations.quality_errors [answers]

The rise over what runs today is just what is allowed, where an acceptance is false and most frequent, or twice that: of
the disagreement rate or of the mean KL divergence, while the other does not rise. What is allowed is stated, or by the
default half of today's own distance from float32 on the same tokens. Tokens are judged as verify judges them: by the
upper ends of both 95 % intervals, of blocks of neighbours (`is_acceptable`). *Answers* are those of a classifier: few,
and independent of each other.

Each side's token has a normal score, half of it common to both sides. The most likely token differs where the score is
beyond a threshold; the KL divergence is log-normal in the score. The common half is an AR(1) process over the text.
"""

import math
import sys
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from benchmarks.simulations.simulated_requests import standard
from workers.measuring.allowed_rises import NATS_PER_RATE, OF_TRAINED, OWN_SHARE, Tolerances
from workers.measuring.answers import MIN_ANSWERS
from workers.measuring.quality import MIN_TOKENS, block_means, is_acceptable
from workers.stats.intervals import paired_difference

ALLOWED = 0.01
"""A stated `max_quality_loss`, and ten times the nats that the divergence may then rise by."""
COMMON = 0.5
"""The share of a score's variance that both sides have in common: what makes a token hard."""
PATHS, PATHS_OF_ANSWERS = 400, 2_000
TEXTS = {"independent tokens": 0.0, "AR(1), 0.5": 0.5, "AR(1), 0.9": 0.9, "AR(1), 0.99": 0.99}
"""The correlation of the common score with that of the token before."""
SIZES = {"just what is allowed": 1.0, "twice that": 2.0}


class Loss(NamedTuple):
    """How a plan differs from float32: its disagreement rate before and the rise of that; the rise of its mean KL
    divergence, in nats; the standard deviation of the logarithm of a token's divergence; and the mean before.

    By default what bf16 loses on an H200 (docs/method.md)."""

    disagreement: float = 0.055
    rise: float = 0.0
    kl_rise: float = 0.0
    spread: float = 0.6
    kl: float = 0.0008
    allowed: Tolerances = Tolerances.stated(ALLOWED)


TRAINED, TRAINED_KL = 0.0358, 0.00134
"""The disagreement rate of SmolLM2-135M-Instruct in bf16, and its mean KL divergence in nats."""
OWN = Loss(TRAINED, kl=TRAINED_KL, spread=1.5, allowed=OF_TRAINED)
LOSSES = {
    "tokens differ, 5.5 % did before": Loss(rise=ALLOWED),
    "tokens differ, none did before": Loss(0.0, rise=ALLOWED),
    "divergence": Loss(kl_rise=NATS_PER_RATE * ALLOWED),
    "divergence with a long tail": Loss(kl_rise=NATS_PER_RATE * ALLOWED, spread=1.5),
    "tokens differ, by the default": OWN._replace(rise=OWN_SHARE * TRAINED),
    "divergence with a long tail, by the default": OWN._replace(kl_rise=OWN_SHARE * TRAINED_KL),
}
"""What a plan loses that loses just what is allowed."""


def acceptance_rate(name: str, text: str, times: float = 1.0, paths: int = PATHS) -> float:
    """The share of simulated comparisons over MIN_TOKENS tokens in which a plan is accepted that loses so many times
    what is allowed.
    """
    draws, loss, acceptance_rate = np.random.default_rng([*name.encode(), *text.encode()]), LOSSES[name], 0
    for common in standard(draws, (paths, MIN_TOKENS), TEXTS[text]):
        before = _blocks(draws, common, loss.disagreement, loss.kl, loss.spread)
        rates = loss.disagreement + times * loss.rise, loss.kl + times * loss.kl_rise
        after = _blocks(draws, common, *rates, loss.spread)
        changes = [paired_difference(*pair) for pair in zip(before, after, strict=True)]
        rate, nats = (float(np.mean(blocks)) for blocks in before)
        acceptance_rate += is_acceptable(changes[0], changes[1], loss.allowed.beside(rate, nats))
    return acceptance_rate / paths


def _blocks(
    draws: np.random.Generator, common: np.ndarray, disagreement: float, kl: float, spread: float
) -> tuple[list[float], list[float]]:
    """The disagreement rate and the mean divergence of each block of tokens, by the tokens' `common` scores."""
    score = math.sqrt(COMMON) * common + math.sqrt(1 - COMMON) * draws.standard_normal(len(common))
    threshold = NormalDist().inv_cdf(1 - disagreement) if disagreement else math.inf
    divergence = kl * np.exp(spread * score - spread**2 / 2)
    wrong: list[float] = block_means((score > threshold).astype(float)).tolist()
    return wrong, block_means(divergence).tolist()


def accepted_answers(times: float = 1.0, answers: int = MIN_ANSWERS, paths: int = PATHS_OF_ANSWERS) -> float:
    """The share of simulated comparisons over so many answers in which a classifier is accepted of whose answers so
    many times what is allowed differ after, and none before.
    """
    draws, acceptance_rate = np.random.default_rng(answers), 0
    for wrong in draws.random((paths, answers)) < times * ALLOWED:
        acceptance_rate += paired_difference([0.0] * answers, wrong.astype(float).tolist()).high <= ALLOWED
    return acceptance_rate / paths


def main() -> None:
    if sys.argv[1:] == ["answers"]:
        print(f"| answers of a classifier | {' | '.join(SIZES)} |")
        print("| --- " * (1 + len(SIZES)) + "|")
        print(f"| {MIN_ANSWERS} | {' | '.join(f'{accepted_answers(times):.1%}' for times in SIZES.values())} |")
        return
    print(f"| what a plan loses | {' | '.join(TEXTS)} |")
    print("| --- " * (1 + len(TEXTS)) + "|")
    for name in LOSSES:
        for size, times in SIZES.items():
            shares = (f"{acceptance_rate(name, text, times):.1%}" for text in TEXTS)
            print(f"| {name}: {size} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
