"""Maps a function over items in several processes. Imports without torch."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


def shared_out(one: Callable[[Item], Found], items: Sequence[Item], jobs: int) -> list[Found]:
    """`one(item)` for each item, in order. With `jobs` above 1 it runs in fresh processes: `one` and the items are
    pickled.
    """
    if jobs <= 1:
        return [one(item) for item in items]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(one, items))
