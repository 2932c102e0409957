"""Names each bottleneck in one sentence: what it is, how much it costs, what would help."""

from collections.abc import Sequence

from workers.charts.text import plain
from workers.documents.measurement import Ceilings
from workers.documents.stages import Bottleneck, OpRow
from workers.traces.labels import BOOKKEEPING, SAMPLING, UNATTRIBUTED

MOST = 6
LEAST_SHARE = 0.02
NEAR_FLOOR = 0.8
_PARTS = ("linear ", "norm ", "activation ", "embedding ", "lm_head", "rope", "kv cache", "residual", "gated", "mask")


def bottlenecks(rows: Sequence[OpRow], ceilings: Ceilings, on_gpu: bool, launches: int) -> list[Bottleneck]:
    """The costliest rows, most expensive first, each with its sentence."""
    worst = [row for row in sorted(rows, key=lambda row: -row.ms) if row.share >= LEAST_SHARE][:MOST]
    return [
        Bottleneck(
            rank=rank,
            op=row.op,
            ms=row.ms,
            share=row.share,
            bound=row.bound,
            sentence=f"{_what(row)}: {_advice(row, ceilings, on_gpu, launches)}",
        )
        for rank, row in enumerate(worst, 1)
    ]


def _what(row: OpRow) -> str:
    cost = f"{plain(row.ms)} ms, {100 * row.share:.0f} % of the request"
    if row.bound == "idle":
        return f"Waiting for the host takes {cost}"
    where = {"decode": "while decoding", "prefill": "in the prefill", "forward": "in the forward pass"}.get(row.phase)
    return f"The operation {row.op} takes {cost}{f', {where}' if where else ''}"


def _advice(row: OpRow, ceilings: Ceilings, on_gpu: bool, launches: int) -> str:
    for rule in (_idle, _unknown, _own_code, _bookkeeping, _cache, _attention, _launch, _near_floor, _memory, _compute):
        said = rule(row, ceilings, on_gpu, launches)
        if said:
            return said
    return "it has no roofline floor here; fuse it with its neighbours or remove it."


def _idle(row: OpRow, ceilings: Ceilings, on_gpu: bool, launches: int) -> str:
    if row.bound != "idle":
        return ""
    if on_gpu:
        return (
            f"the GPU idles between {launches:,} launches a request; recording the step as a CUDA graph, or running it "
            "as one megakernel, takes the host out of the way."
        )
    return "Python runs between the operations; compiling the model removes most of it."


def _unknown(row: OpRow, ceilings: Ceilings, on_gpu: bool, launches: int) -> str:
    if row.op != UNATTRIBUTED:
        return ""
    return (
        f"neither their place nor their names tell what these kernels do, of which {row.kernel} takes longest; find "
        "the code that launches it."
    )


def _own_code(row: OpRow, ceilings: Ceilings, on_gpu: bool, launches: int) -> str:
    """A module's operation that is none of a transformer's usual parts."""
    if row.op.startswith(_PARTS) or "(" not in row.op:
        return ""
    module = row.op.split(" (")[0]
    return (
        f"{row.calls:,} calls of {row.kernel} in the model's own code of {module}, none of a transformer's usual "
        "operations; simplify it or take it out of the request."
    )


def _bookkeeping(row: OpRow, ceilings: Ceilings, on_gpu: bool, launches: int) -> str:
    if row.op not in (SAMPLING, BOOKKEEPING, "mask and positions", "rope angles"):
        return ""
    return (
        "this is bookkeeping around the model, operation by operation and anew for every token; a static cache with "
        "the sampling inside the compiled step removes nearly all of it."
    )


def _cache(row: OpRow, ceilings: Ceilings, on_gpu: bool, launches: int) -> str:
    if row.op != "kv cache update" or row.phase != "decode":
        return ""
    return "every step copies the whole cache to make room for one token; a static cache appends in place."


def _attention(row: OpRow, ceilings: Ceilings, on_gpu: bool, launches: int) -> str:
    if row.op != "attention" or row.bound == "launch":
        return ""
    if any(word in row.kernel.lower() for word in ("softmax", "bmm", "matmul", "gemm", "elementwise")):
        return "it writes the scores to memory (the math path); FlashAttention keeps them on the chip."
    if not on_gpu:
        return f"it runs at {_share(row)} of the roofline; compiling the model fuses what surrounds it."
    if row.phase == "decode":
        return (
            f"it reads the KV cache at {_share(row)} of the roofline; splitting the keys over more blocks would help."
        )
    return f"it runs at {_share(row)} of the roofline; a FlashAttention kernel made for this GPU would help."


def _launch(row: OpRow, ceilings: Ceilings, on_gpu: bool, launches: int) -> str:
    if row.bound != "launch":
        return ""
    each_us = 1000 * row.ms / max(1, row.calls)
    return (
        f"{row.calls:,} calls of {each_us:.1f} µs, where an empty launch takes {ceilings.launch_us:.1f} µs; fusing it "
        "with its neighbours or a megakernel would save nearly all of it."
    )


def _near_floor(row: OpRow, ceilings: Ceilings, on_gpu: bool, launches: int) -> str:
    if not row.floor_ms or row.floor_ms < NEAR_FLOOR * row.ms:
        return ""
    remedy = "weights in lower precision or a larger batch" if row.bound == "memory" else "lower precision"
    return f"it is at {_share(row)} of the roofline already, so only {remedy} would help."


def _memory(row: OpRow, ceilings: Ceilings, on_gpu: bool, launches: int) -> str:
    if row.bound != "memory" or not row.floor_ms or not row.least_bytes:
        return ""
    rate, best = row.least_bytes / row.ms / 1e6, 1000 * ceilings.read_tbps
    start = (
        f"it moves {plain(rate)} GB/s of the {plain(best)} GB/s measured and could save "
        f"{plain(row.headroom_ms or 0.0)} ms"
    )
    if row.op.startswith(("linear", "lm_head")):
        return f"{start}; a GEMM made for few rows, or weights in lower precision, would help."
    return f"{start}; fusing it with its neighbours saves the trips to memory."


def _compute(row: OpRow, ceilings: Ceilings, on_gpu: bool, launches: int) -> str:
    if row.bound != "compute" or not row.floor_ms:
        return ""
    saved = plain(row.headroom_ms or 0.0)
    return (
        f"it runs at {_share(row)} of the measured matrix rate and could save {saved} ms; a better tiled GEMM or lower "
        "precision would help."
    )


def _share(row: OpRow) -> str:
    return f"{100 * row.floor_ms / row.ms:.0f} %" if row.floor_ms else "an unknown share"
