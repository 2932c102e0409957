"""Reads the committed results: `results/<gpu>/NAME.json`, their rows, and figures derived from a row."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kernels.measure.roofline import burst_rates
from kernels.quant.formats import INT4

RESULTS = Path(__file__).parent / "results" / "h200"
LAUNCH_MS = 0.003
"""Time of an empty kernel launch in ms, as taken off where a table says so. The documents hold what a run measured."""

Row = Mapping[str, Any]
LOSSY = {"int8", "fp8", "nvfp4", *INT4}
"""Weights in lower precision. A model's time with them stands beside its fidelity only."""


@cache
def document(name: str) -> dict[str, Any]:
    """The result `NAME.json` of an H200, a CPU or the site; `h200x2/NAME` of two H200s. Raises ValueError."""
    for folder in (RESULTS, RESULTS.parent, *map(RESULTS.with_name, ("cpu", "2-core-epyc"))):
        path = folder / f"{name}.json"
        if path.is_file():
            content: dict[str, Any] = json.loads(path.read_text("utf-8"))
            return content
    raise ValueError(f"there is no {name}.json in benchmarks/results/h200, cpu or 2-core-epyc")


def field(row: Row, key: str) -> Any:
    """A row's own field, or that of its case; None when neither has it."""
    value = row.get(key)
    return row.get("case", {}).get(key) if value is None else value


def is_lossy(row: Row) -> bool:
    """Whether the row is of a whole model in lower precision."""
    return row.get("op") == "model" and field(row, "weights") in LOSSY


def is_borrowed(row: Row) -> bool:
    """Whether a row of ours ran kernels that are not this library's, as where cuBLAS computes a product."""
    return row.get("own") is False and not row.get("peer")


def rows(name: str, **where: Any) -> list[Row]:
    """The rows of a document whose fields are as asked, compared as text without regard to case.

    Rows that were never timed beside their peers are left out: they are params that lost. They have no names of
    kernels. A whole model has `rounds`; another engine's kernels run in its own process and have no names either.
    """
    expected = {key: str(value).lower() for key, value in where.items()}
    return [
        row
        for row in document(name)["rows"]
        if (row.get("kernels", True) or row.get("rounds"))
        and all(str(field(row, key)).lower() == text for key, text in expected.items())
    ]


def one(name: str, **where: Any) -> Row:
    """The one row that is as asked. Raises ValueError when there is none, or more than one."""
    matching = rows(name, **where)
    if len(matching) != 1:
        raise ValueError(f"{name}.json has {len(matching)} rows with {where}, not one")
    return matching[0]


def best(name: str, **where: Any) -> Row:
    """The row with the least time of those that are as asked. Raises ValueError when there is none."""
    timed = [row for row in rows(name, **where) if row["ms"] is not None]
    if not timed:
        raise ValueError(f"{name}.json has no timed row with {where}")
    return min(timed, key=lambda row: row["ms"])


def bandwidth_share(name: str, row: Row, ceiling: str, launch_ms: float = 0.0) -> float:
    """Least bytes at the document's measured bandwidth (`read_tbps` or `copy_tbps`), over the time less a launch."""
    terabytes = row["gbps"] * row["ms"] / 1e6
    bandwidth: float = burst_rates(document(name)["ceilings"])[ceiling]
    return terabytes / (bandwidth * (row["ms"] - launch_ms) / 1e3)


def bandwidth_bound_us(name: str, row: Row, share: float = 0.85) -> float:
    """µs of reading a row's least bytes at `share` of the measured read bandwidth, and an empty launch."""
    terabytes = row["gbps"] * row["ms"] / 1e6
    bandwidth: float = burst_rates(document(name)["ceilings"])["read_tbps"]
    return terabytes / (share * bandwidth) * 1e6 + LAUNCH_MS * 1e3
