"""How many requests of a load were sent, have ended and have failed so far, by all processes that send it."""

import mmap

SENT, ENDED, FAILED, OVERRUN = range(4)
KINDS = 4
CELL = 8
"""Bytes of one counter."""


class Counts:
    """A row of counters for each process. Each writes its own row, and reads all of them."""

    def __init__(self, rows: int = 1, file: int = -1, row: int = 0) -> None:
        """`file` is the descriptor of a file of `bytes_of(rows)` bytes, by which processes share the counters; without
        it they are this process's own. `row` is the one that this process writes.
        """
        self._cells = memoryview(mmap.mmap(file, bytes_of(rows))).cast("q")
        self._first = KINDS * row

    def add(self, kind: int) -> None:
        """One more of this process."""
        self._cells[self._first + kind] += 1

    def total(self, kind: int) -> int:
        """Of all processes."""
        return sum(self._cells[kind::KINDS])

    @property
    def open(self) -> int:
        """Requests that were sent and have not ended."""
        return self.total(SENT) - self.total(ENDED)


def bytes_of(rows: int) -> int:
    """The size of the counters of so many processes."""
    return rows * KINDS * CELL
