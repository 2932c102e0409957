"""Sizes drawn at random for `check`: each magnitude as likely as another. Imports without torch."""

import math
import random


def random_size(rng: random.Random, low: int, high: int, step: int = 1) -> int:
    """A multiple of `step` from `low` to `high`, both included, even in its logarithm; `high` itself one time in 12."""
    if rng.random() < 1 / 12:
        return high
    value = math.exp(rng.uniform(math.log(low), math.log(high)))
    return min(high, max(low, step * round(value / step)))
