"""Tables of attention."""

from benchmarks.documents import Row, best, field, one, rows
from benchmarks.tables.writing import LIBRARY, also_measured, markdown, ratio, shares, table, us

PREFILL = dict(op="attention", kind="prefill", lengths=None)


@table("prefill")
def prefill() -> str:
    """flash_hopper beside torch's attention: TFLOP/s, full and causal."""
    lines = []
    for head_dim in (64, 128):
        for length in (1024, 4096, 16384):
            cells = []
            for variant in ("flash_hopper", "sdpa_cudnn", "sdpa_flash"):
                shown = [
                    one(LIBRARY, variant=variant, head_dim=head_dim, q_len=length, causal=causal, **PREFILL)
                    for causal in (False, True)
                ]
                cells += [[f"{row['tflops']:.0f}" for row in shown]]
                if variant == "flash_hopper":
                    times = [f"{row['ratio_to_best_peer']:.2f}x" for row in shown]
            lines.append([str(head_dim), f"{length:,}", *(" / ".join(cell) for cell in cells), " / ".join(times)])
    header = ["head_dim", "length", "flash_hopper, full / causal", "cuDNN", "FlashAttention-2", "times the best peer"]
    return markdown(header, lines)


@table("prefill-triton")
def prefill_triton() -> str:
    """flash_triton beside the others at 4,096 tokens: TFLOP/s, full and causal."""
    lines = []
    for variant, label in (
        ("flash_triton", "flash_triton, best tile"),
        ("sdpa_flash", "FlashAttention-2 in torch"),
        ("sdpa_cudnn", "cuDNN"),
        ("flash_hopper", "flash_hopper"),
    ):
        cells = []
        for head_dim in (64, 128):
            shown = [
                one(LIBRARY, variant=variant, head_dim=head_dim, q_len=4096, causal=causal, **PREFILL)
                for causal in (False, True)
            ]
            cells.append(" / ".join(f"{row['tflops']:.0f}" for row in shown))
        lines.append([label, *cells])
    return markdown(["", "head_dim 64 (32 heads)", "head_dim 128 (16 heads)"], lines)


@table("packed")
def packed() -> str:
    """Packed causal sequences: flash_triton beside torch's."""
    lines = []
    for variant, label in (
        ("flash_triton", "flash_triton, best tile"),
        ("torch_varlen", "FlashAttention-2 for packed sequences, in torch"),
        ("sdpa_mem_efficient", "torch's memory-efficient attention with a mask"),
    ):
        shown = [
            next(row for row in rows(LIBRARY, variant=variant, kind="prefill", head_dim=size) if field(row, "lengths"))
            for size in (64, 128)
        ]
        lines.append([label, *(f"{us(row)} µs, {row['tflops']:.0f} TFLOP/s" for row in shown)])
    return markdown(["", "head_dim 64 (32 heads)", "head_dim 128 (16 heads)"], lines)


DECODE: tuple[tuple[int, int, int, int | None], ...] = (
    (64, 1, 192, None),
    (64, 1, 4096, None),
    (64, 8, 8192, None),
    (64, 8, 8192, 16),
    (64, 8, 8192, 64),
    (64, 1, 65536, None),
    (64, 64, 8192, None),
    (128, 8, 8192, None),
    (128, 1, 65536, None),
)


PACKED = {
    "sdpa_cudnn_packed": "cuDNN, heads packed",
    "sdpa_flash_packed": "FlashAttention-2, heads packed",
    "torch_flex_decode": "flex_attention, compiled",
}
"""Peers that newer documents have as well."""


def _decode_case(case: tuple[int, int, int, int | None], kv: str) -> dict[str, object]:
    head_dim, batch, keys, page = case
    return dict(kind="decode", head_dim=head_dim, batch=batch, kv_len=keys, page_size=page, kv_dtype=kv)


def _decode_rows(variant: str, case: tuple[int, int, int, int | None], kv: str) -> list[Row]:
    return rows(LIBRARY, variant=variant, **_decode_case(case, kv))


@table("decode-attention")
def decode_attention() -> str:
    """Decode attention in bf16: both kernels beside cuDNN and FlashAttention-2, µs."""
    lines, packed = [], also_measured(PACKED, [_decode_case(case, "bf16") for case in DECODE])
    for at, case in enumerate(DECODE):
        head_dim, batch, keys, page = case
        times = []
        for variant in ("decode_hopper", "decode_split", "sdpa_cudnn", "sdpa_flash"):
            decoded = _decode_rows(variant, case, "bf16")
            times.append(us(decoded[0]) if decoded else "–")
        ours = [_decode_rows(variant, case, "bf16")[0] for variant in ("decode_hopper", "decode_split")]
        of_bandwidth = shares(min(ours, key=lambda row: row["ms"]), "read_tbps") if keys > 4096 else ["–", "–"]
        times += [column[at] for column in packed.values()]
        lines.append([f"{head_dim}, {batch}, {keys:,}" + (f", pages of {page}" if page else ""), *times, *of_bandwidth])
    header = ["head_dim, batch, keys", "`decode_hopper`", "`decode_split`", "cuDNN", "FlashAttention-2"]
    header += [PACKED[name] for name in packed]
    return markdown([*header, "share of the read bandwidth", "less 3.0 µs of a launch"], lines)


@table("decode-attention-fp8")
def decode_attention_fp8() -> str:
    """Decode attention with an fp8 cache: µs, share of the read bandwidth, error beside the gate's limit."""
    lines = []
    for head_dim, batch, keys in ((64, 8, 8192), (64, 1, 65536), (128, 8, 8192), (128, 1, 65536)):
        ours = [
            _decode_rows(variant, (head_dim, batch, keys, None), "fp8")[0]
            for variant in ("decode_hopper", "decode_split")
        ]
        faster = min(ours, key=lambda row: row["ms"])
        error = f"{faster['error']:.4f} of {faster['error_limit']:.4f}"
        lines.append([f"{head_dim}, {batch}, {keys:,}", *map(us, ours), *shares(faster, "read_tbps"), error])
    header = ["head_dim, batch, keys", "`decode_hopper`", "`decode_split`", "share of the read bandwidth"]
    return markdown([*header, "less 3.0 µs of a launch", "error, limit"], lines)


@table("step")
def step() -> str:
    lines = []
    for heads, head_dim, label in ((32, 64, "32 on 8, 64 (Llama-3.2-1B)"), (12, 128, "12 on 2, 128 (Qwen2.5-1.5B)")):
        for batch, keys in ((1, 192), (1, 1088), (32, 192)):
            where = dict(op="step_attention", heads=heads, head_dim=head_dim, batch=batch, kv_len=keys)
            pair = [one(LIBRARY, variant=variant, **where) for variant in ("step_hopper", "torch_step_attention")]
            lines.append([label, str(batch), f"{keys:,}", *map(us, pair)])
    return markdown(["heads, head_dim", "batch", "slots of cache", "`step_hopper`", "torch, eager"], lines)


@table("decode-peers")
def decode_peers() -> str:
    """Decode attention over long caches beside flash kernels, heads that share keys packed as queries or not: µs."""
    names = ("sdpa_cudnn", "sdpa_flash", "sdpa_cudnn_packed", "sdpa_flash_packed")
    lines = []
    for case in ((64, 8, 8192, None), (64, 1, 65536, None), (128, 8, 8192, None), (128, 1, 65536, None)):
        where = _decode_case(case, "bf16")
        peers = [one("library-peers", variant=name, **where) for name in names]
        ours = best("library-peers", peer=False, **where)
        nearest = min(peers, key=lambda row: row["ms"])
        head_dim, batch, keys, _ = case
        lines.append([f"{head_dim}, {batch}, {keys:,}", f"{us(ours)} (`{ours['variant']}`)", *map(us, peers)])
        lines[-1].append(ratio(ours, nearest))
    header = ["head_dim, batch, keys", "ours", "cuDNN", "FlashAttention-2", "cuDNN, packed", "FlashAttention-2, packed"]
    return markdown([*header, "times the best peer"], lines)
