"""Errors of the command, and its exit codes."""

from collections.abc import Sequence
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes: the verdict of a run, or why there is none."""

    MET = 0
    MISSED = 1
    USAGE = 2
    FAILED = 3
    NOT_ENOUGH_SAMPLES = 4
    CANCELLED_OR_LOST = 5
    TOO_CLOSE = 6
    REGRESSED = 7
    INTERRUPTED = 130


class CliError(Exception):
    """Ends the command with `code` after printing `lines`, one sentence each."""

    def __init__(self, lines: str | Sequence[str], code: Exit = Exit.USAGE) -> None:
        self.lines = [lines] if isinstance(lines, str) else list(lines)
        self.code = code
        super().__init__(" ".join(self.lines))
