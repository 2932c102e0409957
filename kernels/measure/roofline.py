"""Whether a measured time can be true: nothing runs faster than its chip. Imports without torch."""

from collections.abc import Mapping

from kernels.hardware import Gpu
from kernels.ops import BYTES, AttentionCase, Case, LinearCase, LmHeadCase, ModelCase

MATRIX_RATE: dict[str, float] = {"fp32": 0.5, "bf16": 1, "fp16": 1, "int8": 2, "fp8": 2, "int4": 2, "nvfp4": 4}
"""Matrix FLOP per clock of a precision, relative to bf16 (fp32: as TF32)."""

UNKNOWN_CHIP_MARGIN = 10.0
"""A CPU has no datasheet here: what passes its measured ceilings this many times over is not believed."""


def least_flops(case: Case) -> float:
    """FLOPs that no implementation can avoid; below `case.flops` where a window or causality leaves pairs out."""
    if isinstance(case, AttentionCase):
        return 4.0 * case.heads * case.head_dim * sum(_pairs(case, *each) for each in case.sequences)
    return case.flops


def least_bytes(case: Case) -> float:
    """Bytes that no implementation can avoid; below `case.least_bytes` where a window hides keys."""
    if isinstance(case, AttentionCase) and case.window is not None and case.lengths is None:
        hidden = sum(max(0, kv_len - (case.q_len - 1 + case.window)) for _, kv_len in case.sequences)
        return case.least_bytes - 2 * hidden * case.kv_heads * case.head_dim * BYTES[case.kv_dtype]
    return case.least_bytes


def _pairs(case: AttentionCase, q_len: int, kv_len: int) -> float:
    """How many (query, key) pairs of one sequence are visible."""
    if case.window is None:
        hidden = min(q_len, kv_len)
        return q_len * kv_len - (hidden * (hidden - 1) / 2 if case.causal else 0)
    if not case.causal:
        return q_len * min(case.window, kv_len)
    first = kv_len - q_len + 1
    return float(sum(max(0, min(case.window, first + query)) for query in range(q_len)))


def precision(case: Case) -> str:
    """The precision whose matrix rate bounds the case: the faster one of weights and activations."""
    if isinstance(case, ModelCase):
        return case.weights
    if isinstance(case, LinearCase | LmHeadCase):
        return max(case.weights, case.dtype, key=lambda name: MATRIX_RATE[name])
    return getattr(case, "dtype", "bf16")


def impossible(case: Case, ms: float, gpu: Gpu, ceilings: Mapping[str, object] | None = None) -> str | None:
    """A sentence when `ms` with a cold cache is under what the chip could ever do, else None.

    Bounds: SMs × FLOP per clock × highest SM clock (fp8 double), and the datasheet's bandwidth. Where the datasheet
    has none (a CPU), ten times the measured `ceilings`.
    """
    if ms <= 0:
        return f"Impossible: {ms:g} ms is no time at all."
    tflops, tbps = _bounds(case, gpu, ceilings)
    reached = least_flops(case) / ms / 1e9
    if tflops and reached > tflops:
        return f"Impossible: {reached:.0f} TFLOP/s, while the chip can never exceed {tflops:.0f}."
    moved = least_bytes(case) / ms / 1e9
    if tbps and moved > tbps:
        return f"Impossible: {moved:.2f} TB/s with a cold cache, while the memory can never exceed {tbps:.2f}."
    return None


def believable(case: Case, ms: float, gpu: Gpu, ceilings: Mapping[str, object] | None = None) -> bool:
    """Whether `ms` could be true for the case on the GPU."""
    return impossible(case, ms, gpu, ceilings) is None


def _bounds(case: Case, gpu: Gpu, ceilings: Mapping[str, object] | None) -> tuple[float, float]:
    """TFLOP/s and TB/s that cannot be exceeded; 0 where nothing is known."""
    if gpu.impossible_tflops:
        return gpu.impossible_tflops * MATRIX_RATE[precision(case)], gpu.memory_tbps
    if not ceilings:
        return 0.0, 0.0
    rates = ceilings.get("matrix_tflops")
    best = max(rates.values(), default=0.0) if isinstance(rates, Mapping) else 0.0
    read = ceilings.get("read_tbps")
    return UNKNOWN_CHIP_MARGIN * best, UNKNOWN_CHIP_MARGIN * (read if isinstance(read, int | float) else 0.0)


def floor_ms(case: Case, ceilings: Mapping[str, object]) -> float | None:
    """Roofline floor in ms: the larger of FLOPs over the measured matrix rate and bytes over the measured bandwidth."""
    rates, read = ceilings.get("matrix_tflops"), ceilings.get("read_tbps")
    if not isinstance(rates, Mapping) or not isinstance(read, int | float):
        return None
    rate = rates.get(precision(case)) or rates.get(getattr(case, "dtype", "")) or max(rates.values(), default=0.0)
    copies = case.op in ("rmsnorm", "rope", "gated")
    copy = ceilings.get("copy_tbps")
    bandwidth = copy if copies and isinstance(copy, int | float) and copy else read
    times = [case.flops / rate / 1e9 if rate else 0.0, case.least_bytes / bandwidth / 1e9 if bandwidth else 0.0]
    return max(times) or None
