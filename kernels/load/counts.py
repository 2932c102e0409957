"""Counters of a load's requests, shared by the processes that send it: sent, ended and failed so far."""

import mmap

SENT, ENDED, FAILED, OVERRUN = range(4)
KINDS = 4
CELL = 8
"""Bytes of one counter."""


class Counts:
    """A table of counters with a row for each process. A process writes its own row and reads all rows."""

    def __init__(self, rows: int = 1, file: int = -1, row: int = 0) -> None:
        """`file` is the descriptor of a file of `bytes_of(rows)` bytes that all processes map; with -1 the table
        is this process's own. `row` is the number of the row that this process writes.
        """
        self._cells = memoryview(mmap.mmap(file, bytes_of(rows))).cast("q")
        self._first = KINDS * row

    def add(self, kind: int) -> None:
        """Adds one to a counter of this process."""
        self._cells[self._first + kind] += 1

    def total(self, kind: int) -> int:
        """The sum of a counter over all processes."""
        return sum(self._cells[kind::KINDS])

    @property
    def open(self) -> int:
        """Requests that were sent and have not ended."""
        return self.total(SENT) - self.total(ENDED)


def bytes_of(rows: int) -> int:
    """The bytes of a table for `rows` processes."""
    return rows * KINDS * CELL
