"""The table of the host times of calls."""

from collections.abc import Iterable
from typing import Any

from benchmarks.documents import Row, document, field, rows
from benchmarks.tables.writing import markdown, table

CALLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("small_gemm", "64 × 4096 × 4096", {"epilogue": "none"}),
    ("skinny", "1 × 4096 × 4096", {"epilogue": "none"}),
    ("gemm_hopper", "512 × 4096 × 4096", {"epilogue": "none"}),
    ("gemm_hopper_fp8", "scales of rows", {}),
    ("grouped_hopper", "8 experts", {}),
    ("flash_hopper", "512 queries", {}),
    ("decode_hopper", "2,048 keys", {}),
    ("decode_split", "2,048 keys", {}),
    ("step_hopper", "2,048 keys", {}),
    ("rmsnorm_triton", "1 × 4096", {"residual": False}),
    ("rmsnorm_triton", "1 × 4096 with residual", {"residual": True}),
    ("gated_triton", "1 × 8192", {}),
    ("rope_triton", "append of one token", {}),
    ("flash_triton", "512 queries", {}),
    ("lm_head_skinny", "argmax", {"sampling": "argmax"}),
    ("lm_head_skinny", "top-k and top-p", {"sampling": "top_k_p"}),
)
"""Variant, what the line says of its case, and the fields that select it among rows of the variant without params."""

OTHERS = (
    ("F.linear", "`F.linear`, 64 × 4096 × 4096"),
    ("F.sdpa", "torch's attention, 512 queries"),
    ("torch.empty", "`torch.empty` alone"),
    ("launch", "one `cuLaunchKernelEx` by ctypes alone"),
)
"""Calls of torch, and parts of a call, by their names in the document."""

TIMES = ("checked", "unchecked_out")
RUNS = ("host-cost", "host-cost-dc4145a")


@table("host-cost")
def host_cost() -> str:
    """Median host times of a call in µs: before launches were kept, and since then in two runs on two hosts."""
    before, runs = document("host-cost-e4f61be")["before_on_a_quiet_host"], [document(name) for name in RUNS]
    lines = []
    for variant, label, where in CALLS:
        old, *new = (_row(run["rows"], variant, where) for run in (before, *runs))
        times = [f"{row[name][0]:.1f}" if row else "–" for row in new for name in TIMES]
        lines.append([f"`{variant}`, {label}", f"{old['checked'][0]:.1f}" if old else "–", *times])
    for name, label in OTHERS:
        lines.append([label, "", *(cell for run in runs for cell in (f"{run['torch'][name][0]:.1f}", ""))])
    columns = [f"{what}, {run['commit'][:7]}" for run in runs for what in ("checked", "unchecked, `out=`")]
    return markdown(["", "before", *columns], lines)


def _row(given: Iterable[Row], variant: str, where: dict[str, Any]) -> Row | None:
    """The first row of a variant without params whose case has these fields."""
    matching = (row for row in given if row["variant"] == variant and not row["params"])
    return next((row for row in matching if all(field(row, key) == value for key, value in where.items())), None)


IN_THE_BENCH = (
    ("decode_split", {"kind": "decode", "head_dim": 64, "kv_len": 8192}, "decode attention, 8 sequences of 8,192 keys"),
    ("decode_hopper", {"kind": "decode", "head_dim": 64, "kv_len": 8192}, "the same"),
    ("sdpa_cudnn", {"kind": "decode", "head_dim": 64, "kv_len": 8192}, "the same by torch's cuDNN attention"),
    ("rmsnorm_triton", {"m": 1, "quantise": None}, "RMSNorm of one row"),
    ("gated_triton", {"m": 1}, "SwiGLU of one row"),
    ("rope_triton", {"q_len": 1}, "rotation and append of one token"),
)


@table("host-cost-bench")
def host_cost_bench() -> str:
    """Host times in a run of the whole bench: new outputs, arguments by name, µs."""
    lines = []
    for variant, where, label in IN_THE_BENCH:
        timed = rows("library-peers", variant=variant, **where)
        times = [row["host_us"] for row in timed if row.get("host_us")]
        lines.append([f"`{variant}`", label, f"{min(times):.1f}"])
    return markdown(["variant", "case", "host time"], lines)
