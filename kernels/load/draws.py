"""Random lengths and gaps of requests: numpy's generators, each quantity from a stream of its own."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np

DRAWN_AT_ONCE = 1024


def endless(draw: Callable[[np.random.Generator], np.ndarray], seed: int, stream: int) -> Iterator[float]:
    """Values without end; `draw` gives many at once. A change of one `stream` leaves the others as they were."""
    generator = np.random.default_rng([seed, stream])
    while True:
        yield from draw(generator).tolist()


def log_normal(median: float, sigma: float, most: int, seed: int, stream: int) -> Iterator[int]:
    """Lengths in tokens: ln(length) is normal around ln(`median`) with deviation `sigma`; from 1, cut to `most`."""
    middle = float(np.log(median))
    values = endless(lambda generator: generator.lognormal(middle, sigma, DRAWN_AT_ONCE), seed, stream)
    return (min(max(round(value), 1), most) for value in values)


def arrivals(rate: float, shape: float, seed: int, stream: int) -> Iterator[float]:
    """Seconds after the beginning at which requests come, `rate` a second; gaps are gamma of `shape`, 1 for Poisson.

    The first request comes after a gap as well.
    """
    scale = 1 / (rate * shape)
    return itertools.accumulate(endless(lambda generator: generator.gamma(shape, scale, DRAWN_AT_ONCE), seed, stream))
