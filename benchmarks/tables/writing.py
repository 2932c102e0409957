"""Registers the tables, and writes rows of results as Markdown."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from benchmarks.documents import LAUNCH_MS, Row, bandwidth_share, is_borrowed, is_lossy, rows
from kernels.measure.roofline import MAX_FLOOR_SHARE

TABLES: dict[str, Callable[[], str]] = {}
LIBRARY = "library"
NOT_MEASURED = "not measured²"
"""In the place of a fidelity that lower precision must not lack. What ² means stands below the table."""


def table(name: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    def registered(function: Callable[[], str]) -> Callable[[], str]:
        TABLES[name] = function
        return function

    return registered


def markdown(header: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """A Markdown table, its last line ended."""
    head = list(header)
    body = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in body)


def us(row: Row) -> str:
    time = row["ms"] * 1000
    return f"{time:,.1f}" if time < 1000 else f"{time:,.0f}"


def whole_ms(row: Row, unit: str = " ms") -> str:
    """A whole model's time in ms; with ¹ where it ran products of cuBLAS, as some prompts' passes do."""
    return f"{row['ms']:.1f}{unit}{borrowed(row)}"


def borrowed(row: Row) -> str:
    """¹ behind a figure of ours that kernels of others took part in; "" behind any other."""
    return "¹" if is_borrowed(row) else ""


def also_measured(names: Iterable[str], cases: Sequence[Mapping[str, object]]) -> dict[str, list[str]]:
    """Times in µs of those variants that the library has rows of, a column each, a dash where a case has none.

    Documents from before a peer existed have no such column.
    """
    by_name = {name: [rows(LIBRARY, variant=name, **where) for where in cases] for name in names}
    return {
        name: [us(best[0]) if (best := [row for row in same if row["ms"]]) else "–" for same in column]
        for name, column in by_name.items()
        if any(column)
    }


def fidelity(row: Row) -> list[str]:
    """KL divergence from float32 in nats, and the share of other most likely tokens; dashes or words without."""
    if row["kl"] is None:
        return [NOT_MEASURED if is_lossy(row) else "–"] * 2
    return [f"{row['kl']:#.2g}", f"{row['disagreement']:.1%}".replace("%", " %")]


def ratio(ours: Row, peer: Row) -> str:
    """A peer's time over ours: above 1 is faster."""
    return f"{peer['ms'] / ours['ms']:.3f}x"


def shares(row: Row, ceiling: str) -> list[str]:
    """The share of a bandwidth over the whole time, and less a launch; none beyond MAX_FLOOR_SHARE, which is wrong."""
    shares = (bandwidth_share(LIBRARY, row, ceiling, launch) for launch in (0.0, LAUNCH_MS))
    return [f"{share:.3f}" if share <= MAX_FLOOR_SHARE else f"impossible, above {MAX_FLOOR_SHARE}" for share in shares]
