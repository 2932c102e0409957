"""Tables of norms, gated activations and rotary embeddings."""

from collections.abc import Mapping, Sequence

from benchmarks.documents import one
from benchmarks.tables.writing import LIBRARY, also_measured, markdown, shares, table, us


def _fused(cases: Sequence[tuple[str, Mapping[str, object]]], variant: str, peer: str) -> str:
    compiled = also_measured([f"{peer}_compiled"], [where for _, where in cases])
    lines = []
    for at, (label, where) in enumerate(cases):
        ours, theirs = (one(LIBRARY, variant=name, **where) for name in (variant, peer))
        more = [column[at] for column in compiled.values()]
        lines.append([label, us(ours), us(theirs), *more, *shares(ours, "copy_tbps")])
    header = ["", "µs", "torch, eager, µs", *("torch, compiled, µs" for _ in compiled)]
    return markdown([*header, "share of the copy bandwidth", "less 3.0 µs of a launch"], lines)


@table("rmsnorm")
def rmsnorm() -> str:
    cases: list[tuple[str, Mapping[str, object]]] = [
        ("norm", {"m": 16384, "residual": False, "quantise": None}),
        ("norm of x + residual", {"m": 16384, "residual": True, "quantise": None}),
        ("the same, rounded to fp8", {"m": 16384, "residual": True, "quantise": "fp8"}),
    ]
    return _fused(cases, "rmsnorm_triton", "torch_rmsnorm")


@table("gated")
def gated() -> str:
    cases = [
        (label, {"m": 16384, "activation": activation}) for label, activation in (("SwiGLU", "silu"), ("GeGLU", "gelu"))
    ]
    return _fused(cases, "gated_triton", "torch_gated")


@table("rope")
def rope() -> str:
    cases: list[tuple[str, Mapping[str, object]]] = [
        ("q and k rotated", {"q_len": 16384, "append": False}),
        ("and k, v written to the cache", {"q_len": 16384, "append": True, "paged": False}),
        ("the same, pages of 16", {"q_len": 16384, "append": True, "paged": True}),
    ]
    return _fused(cases, "rope_triton", "torch_rope")
