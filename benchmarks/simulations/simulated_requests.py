"""Times of simulated requests that depend on each other, for the tables of how often verdicts and alarms err."""

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

SPREAD = 0.2
"""The standard deviation of the logarithms of simulated times: what runs today varied so on H200s."""

Process = Callable[[np.random.Generator, tuple[int, int], float], np.ndarray]
"""Draws the logarithms of times over the limit [paths, requests], above 0 where a request lies beyond it: in the long
run the given share of them.
"""


def standard(draws: np.random.Generator, shape: tuple[int, int], correlation: float) -> np.ndarray:
    """Paths of a normal AR(1) process [paths, length] with mean 0, variance 1 and this correlation of neighbours."""
    values = draws.standard_normal(shape)
    values[:, 1:] *= math.sqrt(1 - correlation * correlation)
    for at in range(1, shape[1]):
        values[:, at] += correlation * values[:, at - 1]
    return values


def autoregressive(*correlations: float) -> Process:
    """Log-normal times whose logarithms are the sum of AR(1) processes of equal variance, with these correlations."""

    def process(draws: np.random.Generator, shape: tuple[int, int], share: float) -> np.ndarray:
        parts = np.array([standard(draws, shape, correlation) for correlation in correlations])
        logs: np.ndarray = SPREAD * (parts.sum(axis=0) / math.sqrt(len(parts)) - NormalDist().inv_cdf(1 - share))
        return logs

    return process


def runs_of_slow(length: float) -> Process:
    """Slow requests come in runs of `length` on average; all others take the same time, but for 1 %."""

    def process(draws: np.random.Generator, shape: tuple[int, int], share: float) -> np.ndarray:
        slow, now = np.zeros(shape, dtype=bool), draws.random(shape[0]) < share
        for at in range(shape[1]):
            slow[:, at] = now
            chance = draws.random(shape[0])
            now = np.where(now, chance < 1 - 1 / length, chance < share / (1 - share) / length)
        logs: np.ndarray = np.where(slow, 0.5, -0.5) + 0.01 * draws.standard_normal(shape)
        return logs

    return process


PROCESSES: dict[str, Process] = {
    "independent": autoregressive(0.0),
    "AR(1), 0.61": autoregressive(0.61),
    "AR(1), 0.82": autoregressive(0.82),
    "AR(1), 0.95": autoregressive(0.95),
    "half of the variance drifts, AR(1), 0.985": autoregressive(0.4, 0.985),
    "runs of 3 slow requests": runs_of_slow(3),
}
