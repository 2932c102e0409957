"""Where the commands print: results to `out`, everything else to `err`."""

import sys

from rich.console import Console

LOG_COLUMNS = 120
err = Console(stderr=True, width=None if sys.stderr.isatty() else LOG_COLUMNS)
out = Console(width=None if sys.stdout.isatty() else LOG_COLUMNS)


def complain(line: str) -> None:
    """Print a sentence about what went wrong."""
    err.print(f"workbench: {line}", style="red", markup=False, highlight=False, soft_wrap=True)
