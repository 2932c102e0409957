"""Maps a function over items in several processes. Imports without torch."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


def parallel_map(one: Callable[[Item], Found], items: Sequence[Item], jobs: int) -> Iterator[Found]:
    """`one(item)` of each item, in order, as they come; with `jobs` above 1 pickled, in fresh processes."""
    if jobs <= 1:
        yield from map(one, items)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(one, items)
