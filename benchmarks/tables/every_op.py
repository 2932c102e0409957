"""The table of one to four shapes of every op: the library's fastest variant beside the fastest peer."""

from itertools import groupby

from benchmarks.documents import Row, field, rows
from benchmarks.tables.writing import markdown, ratio, table, us

DOCUMENT = "library-settled"
SHAPE = ("kind", "m", "n", "k", "vocab", "rows", "experts", "batch", "q_len", "kv_len", "heads", "head_dim")
SHOWN = (*SHAPE, "weights", "epilogue", "sampling", "quantise")
"""The fields of a case by which these shapes differ. Usual values are not shown."""


@table("every-op")
def every_op() -> str:
    """µs in bursts of both, the peer's time over ours in bursts and settled, and our share of the floor."""
    lines = []
    for _, same in groupby(rows(DOCUMENT, gate="pass"), key=lambda row: row["case"]):
        measured = list(same)
        ours, peer = (
            min((row for row in measured if row["peer"] is peer and row["settled"]), key=lambda row: row["ms"])
            for peer in (False, True)
        )
        settled = ratio(ours["settled"], peer["settled"])
        names = f"`{ours['variant']}`", us(ours), f"`{peer['variant']}`", us(peer)
        lines.append([_case(ours), *names, ratio(ours, peer), settled, f"{ours['floor_share']:.0%}".replace("%", " %")])
    return markdown(["op", "ours", "µs", "fastest peer", "µs", "in bursts", "settled", "of the floor"], lines)


def _case(row: Row) -> str:
    shown = ((name, field(row, name)) for name in SHOWN)
    facts = [f"{name} {value}" for name, value in shown if value not in (None, "", "none", "bf16")]
    flags = [name for name in ("residual", "append", "paged") if field(row, name) is True]
    return f"{row['case']['op']}: {', '.join([*facts, *flags])}"
