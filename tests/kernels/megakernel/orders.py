"""Orders in which the interpreter's SMs move."""

from collections.abc import Callable

import numpy as np


def round_robin() -> Callable[[list[int]], int]:
    """SMs move one after the other."""
    last = -1

    def pick(able: list[int]) -> int:
        nonlocal last
        last = next((sm for sm in able if sm > last), able[0])
        return last

    return pick


def shuffled(seed: int) -> Callable[[list[int]], int]:
    """Any SM may move, the same ones for the same seed."""
    chance = np.random.default_rng(seed)
    return lambda able: able[int(chance.integers(len(able)))]


def laggard(slow: int) -> Callable[[list[int]], int]:
    """SM `slow` moves only when nobody else can."""
    return lambda able: next((sm for sm in able if sm != slow), slow)
