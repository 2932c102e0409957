"""Variants beside peers that Inductor compiles: chosen cases, and one to four shapes of every op."""

from collections.abc import Mapping
from itertools import groupby

from benchmarks.documents import Row, best, field, rows
from benchmarks.tables.writing import markdown, ratio, table, us

NAME = "library-compiled"
EAGER, COMPILED = "torch, eager, µs", "torch.compile, µs"
CASES: dict[str, tuple[str, Mapping[str, object], str]] = {
    "norm of x + residual, 16,384 × 2,048": ("rmsnorm", {"residual": True, "quantise": None}, "torch_rmsnorm"),
    "the same, rounded to fp8": ("rmsnorm", {"residual": True, "quantise": "fp8"}, "torch_rmsnorm"),
    "SwiGLU, 16,384 × 8,192": ("gated", {"activation": "silu"}, "torch_gated"),
    "rotation and append, 16,384 tokens": ("rope", {"append": True, "paged": False}, "torch_rope"),
    "the same, pages of 16": ("rope", {"append": True, "paged": True}, "torch_rope"),
    "LM head with top-k and top-p, 8 rows": ("lm_head", {"sampling": "top_k_p"}, "torch_lm_head_sampling"),
    "product + residual, 4096×4096×4096": ("linear", {"epilogue": "residual"}, "torch_linear"),
    "product with SwiGLU, 4096×14336×4096": ("linear", {"epilogue": "swiglu"}, "torch_linear"),
    "experts with SwiGLU, Mixtral, 8,192 rows": ("grouped", {"epilogue": "swiglu"}, "torch_grouped_mm"),
}


@table("compiled-peers")
def compiled_peers() -> str:
    """Nine cases beside eager torch and torch.compile: µs, and the best peer's time over ours."""
    lines = []
    for label, (op, where, peer) in CASES.items():
        eager, compiled = (best(NAME, op=op, variant=variant, **where) for variant in (peer, f"{peer}_compiled"))
        ours = best(NAME, op=op, peer=False, **where)
        peers = [row for row in rows(NAME, op=op, peer=True, **where) if row["ms"] is not None]
        nearest = min(peers, key=lambda row: row["ms"])
        lines.append([label, f"{us(ours)} (`{ours['variant']}`)", us(eager), us(compiled), ratio(ours, nearest)])
    return markdown(["", "ours, µs", EAGER, COMPILED, "times the best peer"], lines)


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
