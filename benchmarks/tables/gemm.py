"""Tables of matrix products and the LM head."""

from collections.abc import Sequence
from statistics import geometric_mean

from benchmarks.documents import LAUNCH_MS, Row, bandwidth_bound_us, bandwidth_share, document, one, rows
from benchmarks.tables.writing import LIBRARY, markdown, ratio, shares, table, us
from kernels.cli.bench_document import BenchRow
from kernels.cli.bench_lines import ceilings_line, row_line

LARGE = (
    (1024, 6144, 4096),
    (1024, 16384, 2048),
    (4096, 4096, 4096),
    (8192, 4096, 14336),
    (8192, 8192, 8192),
    (8192, 28672, 4096),
)
FEW = (
    (1, 2048, 1536),
    (1, 2048, 2048),
    (1, 3072, 2048),
    (1, 4096, 4096),
    (1, 6144, 4096),
    (1, 2048, 8192),
    (1, 1536, 8960),
    (1, 17920, 1536),
    (1, 16384, 2048),
    (1, 4096, 14336),
    (1, 28672, 4096),
    (16, 2048, 2048),
    (16, 16384, 2048),
    (16, 28672, 4096),
)


def linear(variant: str, shape: tuple[int, int, int], **where: object) -> Row:
    """The row of a product m×n×k. Raises ValueError when there is none, or more than one."""
    m, n, k = shape
    return one(LIBRARY, op="linear", variant=variant, m=m, n=n, k=k, **where)


def shape_of(shape: tuple[int, int, int]) -> str:
    return "×".join(str(size) for size in shape)


@table("gemm")
def gemm() -> str:
    lines = []
    for shape in LARGE:
        ours, peer = (linear(name, shape, weights="bf16", epilogue="none") for name in ("gemm_hopper", "torch_linear"))
        ping_pong = ours["params"].get("ping_pong") or ours["params"].get("turns")
        tile = f"{ours['params']['columns']}" + (", ping-pong" if ping_pong else "")
        lines.append([shape_of(shape), tile, us(ours), f"{ours['tflops']:.0f}", us(peer), ratio(ours, peer)])
    return markdown(["m×n×k", "columns of a tile", "µs", "TFLOP/s", "cuBLAS, µs", "times cuBLAS"], lines)


@table("gemm-fused")
def gemm_fused() -> str:
    cases = (
        ("bias", (4096, 6144, 4096), "torch_linear", "cuBLASLt's epilogue"),
        ("bias", (4096, 6144, 4096), "torch_linear_separate", "cuBLAS, then a kernel"),
        ("residual", (4096, 4096, 4096), "torch_linear", "cuBLAS, then a kernel"),
        ("swiglu", (4096, 14336, 4096), "torch_linear", "cuBLAS, then kernels"),
        ("swiglu", (1024, 8192, 2048), "torch_linear", "cuBLAS, then kernels"),
        ("rmsnorm_scale", (4096, 6144, 4096), "torch_linear", "kernels, then cuBLAS"),
        ("quantise", (4096, 14336, 4096), "torch_linear", "cuBLAS, then kernels"),
    )
    lines = []
    for epilogue, shape, peer, how in cases:
        ours, theirs = (linear(name, shape, epilogue=epilogue, weights="bf16") for name in ("gemm_hopper", peer))
        lines.append([epilogue, shape_of(shape), us(ours), f"{how}: {us(theirs)}", ratio(ours, theirs)])
    return markdown(["epilogue", "m×n×k", "µs", "torch, eager, µs", "times torch"], lines)


@table("gemm-fp8")
def gemm_fp8() -> str:
    lines = []
    for scales in ("tensor", "row", "block"):
        for shape in LARGE:
            if not rows(LIBRARY, variant="gemm_hopper_fp8", m=shape[0], n=shape[1], k=shape[2], scales=scales):
                continue
            ours, peer = (linear(name, shape, scales=scales) for name in ("gemm_hopper_fp8", "torch_scaled_mm"))
            errors = [f"{row['error']:.4f}" for row in (ours, peer)]
            limit = f"{ours['error_limit']:.4f}"
            speed = f"{ours['tflops']:,.0f}"
            lines.append([scales, shape_of(shape), us(ours), speed, us(peer), ratio(ours, peer), *errors, limit])
    header = ["scales", "m×n×k", "µs", "TFLOP/s", "torch, µs", "times torch"]
    return markdown([*header, "error", "torch's error", "limit"], lines)


@table("grouped")
def grouped() -> str:
    cases = (
        ("Qwen3-30B-A3B, 4,096 tokens, gate and up", 32768, 768),
        ("Qwen3-30B-A3B, 4,096 tokens, down", 32768, 2048),
        ("Mixtral-8x7B, 4,096 tokens, gate and up", 8192, 14336),
        ("Mixtral-8x7B, 4,096 tokens, down", 8192, 4096),
        ("Mixtral-8x7B, 1,024 tokens, gate and up", 2048, 14336),
        ("Mixtral-8x7B, 1,024 tokens, down", 2048, 4096),
    )
    lines = []
    for label, count, n in cases:
        variants = ("grouped_hopper", "torch_grouped_mm", "torch_grouped_loop")
        ours, *peers = (one(LIBRARY, op="grouped", variant=name, rows=count, n=n) for name in variants)
        best = min(peers, key=lambda row: row["ms"])
        lines.append([label, us(ours), *map(us, peers), f"{best['ms'] / ours['ms']:.2f}x"])
    header = ["", "`grouped_hopper`, µs", "torch._grouped_mm", "a loop of cuBLAS", "times the best peer"]
    return markdown(header, lines)


@table("skinny")
def skinny() -> str:
    lines = []
    for shape in FEW:
        ours, peer = (linear(name, shape, weights="bf16", epilogue="none") for name in ("skinny", "torch_linear"))
        bound = f"{bandwidth_bound_us(LIBRARY, ours):.1f}"
        lines.append([shape_of(shape), us(ours), bound, us(peer), ratio(ours, peer)])
    return markdown(["m×n×k", "µs", "bound, µs", "cuBLAS, µs", "times cuBLAS"], lines)


@table("skinny-lossy")
def skinny_lossy() -> str:
    lines = []
    for shape in FEW:
        lossy = [linear(f"skinny_{name}", shape, weights=name, epilogue="none") for name in ("fp8", "nvfp4", "int4")]
        lines.append([shape_of(shape), *(f"{us(row)} / {bandwidth_bound_us(LIBRARY, row):.1f}" for row in lossy)])
    return markdown(["m×n×k, µs / bound", "fp8", "NVFP4", "int4, groups of 128"], lines)


@table("small-gemm")
def small_gemm() -> str:
    """Geometric mean, least and greatest of cuBLAS's time over small_gemm's, by rows."""
    lines = []
    for m in (16, 32, 64, 128, 256):
        ratios = [
            linear("torch_linear", (m, row["case"]["n"], row["case"]["k"]), weights="bf16", epilogue="none")["ms"]
            / row["ms"]
            for row in rows(LIBRARY, op="linear", variant="small_gemm", m=m, epilogue="none")
        ]
        cells = (geometric_mean(ratios), min(ratios), max(ratios))
        lines.append([str(m), str(len(ratios)), *(f"{cell:.2f}x" for cell in cells)])
    return markdown(["rows of x", "shapes", "geometric mean", "least", "greatest"], lines)


def _lm_head(m: int, sampling: str, weights: str) -> Row:
    variant = "lm_head_skinny" + (f"_{weights}" if weights != "bf16" else "")
    return one(LIBRARY, op="lm_head", variant=variant, m=m, sampling=sampling, weights=weights)


@table("lm-head")
def lm_head() -> str:
    lines = []
    for m in (1, 8, 16):
        for sampling, peer in (("argmax", "torch_lm_head"), ("top_k_p", "torch_lm_head_sampling")):
            ours = _lm_head(m, sampling, "bf16")
            theirs = one(LIBRARY, op="lm_head", variant=peer, m=m, sampling=sampling)
            lines.append(
                [
                    str(m),
                    sampling.replace("top_k_p", "top-k and top-p"),
                    us(ours),
                    us(theirs),
                    *shares(ours, "read_tbps"),
                ]
            )
    header = ["rows", "choice", "µs", "torch: logits, then the choice, µs", "share of the read bandwidth"]
    return markdown([*header, "less 3.0 µs of a launch"], lines)


@table("lm-head-lossy")
def lm_head_lossy() -> str:
    """lm_head_skinny with weights in eight and four bits: µs and the share of the read bandwidth."""
    lines = []
    for m in (1, 8, 16):
        for sampling in ("argmax", "top_k_p"):
            lossy = [_lm_head(m, sampling, weights) for weights in ("fp8", "nvfp4", "int4")]
            cells = [f"{us(row)} ({bandwidth_share(LIBRARY, row, 'read_tbps', LAUNCH_MS):.2f})" for row in lossy]
            lines.append([str(m), sampling.replace("top_k_p", "top-k and top-p"), *cells])
    return markdown(["rows", "choice", "fp8", "NVFP4", "int4, groups of 128"], lines)


@table("bench-sample")
def bench_sample() -> str:
    shown = [
        linear(name, (1, 16384, 2048), weights="bf16", epilogue="none")
        for name in ("torch_linear", "gemm_hopper", "skinny")
    ]
    printed = [row_line(BenchRow.model_validate(row)).partition(" dtype=")[0] for row in shown]
    lines = [ceilings_line(document(LIBRARY)["ceilings"]), *(f"{line} …" for line in printed)]
    return "".join(f"{line}\n" for line in ["```", *lines, "```"])


@table("few-rows")
def few_rows() -> str:
    """The products of a layer together, by rows of x: the best in bf16, and those in int8."""
    measured = document("few-rows")["rows"]
    lines = []
    for m in sorted({row["case"]["m"] for row in measured}):
        sums = {variant: _layer_us(measured, m, variant) for variant in ("skinny", "small_gemm")}
        int8 = {variant: _layer_us(measured, m, f"{variant}_int8") for variant in sums}
        best = min(us for us in sums.values() if us)
        cells = [f"{us:.1f} µs ({best / us:.2f}x)" if us else "–" for us in int8.values()]
        lines.append([str(m), f"{best:.1f} µs", *cells])
    return markdown(["rows of x", "bf16", "skinny_int8", "small_gemm_int8"], lines)


def _layer_us(rows: Sequence[Row], m: int, variant: str) -> float:
    """The µs of a layer's products with `m` rows by a variant; 0 where it has none."""
    return sum(float(row["us"]) for row in rows if row["case"]["m"] == m and row["variant"] == variant)
