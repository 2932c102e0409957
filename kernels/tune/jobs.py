"""Maps a function over items in several processes. Imports without torch."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


def parallel_map(one: Callable[[Item], Found], items: Sequence[Item], jobs: int) -> Iterator[Found]:
    """`one(item)` for each item, in order, each as soon as it and all before it have come. With `jobs` above 1 it runs
    in fresh processes: `one` and the items are pickled.
    """
    if jobs <= 1:
        yield from map(one, items)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(one, items)
