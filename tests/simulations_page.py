"""Tables of benchmarks/simulations.md that a command prints: tests hold what is quoted against what it computes."""

from pathlib import Path

PAGE = Path(__file__).parents[1] / "benchmarks" / "simulations.md"


def quoted_shares(command: str) -> dict[str, list[float]]:
    """The rows of the table that follows `python -m COMMAND`: the first cell, and the others' percentages as shares."""
    return {name: [float(cell.rstrip("%")) / 100 for cell in cells] for name, cells in _quoted_cells(command).items()}


def quoted_counts(command: str) -> dict[str, list[int]]:
    """The rows of the table that follows `python -m COMMAND`: the first cell, and the others' counts."""
    return {name: [int(cell.replace(",", "")) for cell in cells] for name, cells in _quoted_cells(command).items()}


def _quoted_cells(command: str) -> dict[str, list[str]]:
    table = PAGE.read_text().partition(f"python -m {command}`")[2].partition("\n| --- ")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]
    return {name: cells for name, *cells in rows}


def agrees(found: float, quoted: float, paths: int) -> bool:
    """Whether a share found among so many `paths` lies within four standard deviations of the one that is quoted."""
    return abs(found - quoted) <= 4 * (max(quoted, 1 / paths) * (1 - quoted) / paths) ** 0.5
