"""The roofline: the least time of a case, and whether a time exceeds the chip's peak. Imports without torch."""

from collections.abc import Mapping, Sequence
from typing import Any

from kernels.hardware import Gpu
from kernels.ops.base import MATRIX_RATE, BaseCase

UNKNOWN_CHIP_MARGIN = 10.0
"""A CPU has no datasheet here: a rate above this many times its measured ceilings is rejected."""
CACHED_BYTES = 256e6
"""Weights of a smaller model may stay in a GPU's cache from token to token: the memory's bandwidth bounds no time."""
MAX_FLOOR_SHARE = 1.05
"""A floor may be at most this share of the time that it bounds, and a part at most this share of the whole. Where it is
more, one of the two measurements is wrong, and no conclusion is drawn from either."""


def doubt(floor: float | None, ms: float) -> str:
    """A sentence when a time lies so far below its measured floor that one of the two must be wrong; "" otherwise."""
    if not floor or floor <= MAX_FLOOR_SHARE * ms:
        return ""
    return f"Its {ms:.3g} ms lie below the floor of {floor:.3g} ms by the measured ceilings: one of the two is wrong."


def exceeds_peak(case: BaseCase, ms: float, gpu: Gpu, ceilings: Mapping[str, object] | None = None) -> str | None:
    """A sentence when `ms` is below what the chip can reach, else None: SMs × FLOP per clock × highest clock (fp8
    double), the datasheet's bandwidth, or (a CPU) ten times the `ceilings`.
    """
    if ms <= 0:
        return f"Impossible: {ms:g} ms is no time at all."
    tflops, tbps = _bounds(case, gpu, ceilings)
    reached = case.unavoidable_flops / ms / 1e9
    if tflops and reached > tflops:
        return f"Impossible: {reached:.0f} TFLOP/s, while the chip can never exceed {tflops:.0f}."
    moved = case.unavoidable_bytes / ms / 1e9
    if tbps and moved > tbps:
        return f"Impossible: {moved:.2f} TB/s with a cold cache, while the memory can never exceed {tbps:.2f}."
    return None


def peak_floor_ms(case: BaseCase, gpu: Gpu) -> float:
    """The least ms that the chip can take for the case, by the bounds of `exceeds_peak`; 0 where nothing is known."""
    tflops, tbps = _bounds(case, gpu, None)
    return max(
        case.unavoidable_flops / tflops / 1e9 if tflops else 0.0, case.unavoidable_bytes / tbps / 1e9 if tbps else 0.0
    )


def _bounds(case: BaseCase, gpu: Gpu, ceilings: Mapping[str, object] | None) -> tuple[float, float]:
    """TFLOP/s and TB/s that cannot be exceeded; 0 where nothing is known."""
    if gpu.impossible_tflops:
        return gpu.impossible_tflops * MATRIX_RATE[case.matrix_precision], gpu.memory_tbps
    if not ceilings:
        return 0.0, 0.0
    rates = ceilings.get("matrix_tflops")
    best = max(rates.values(), default=0.0) if isinstance(rates, Mapping) else 0.0
    read = ceilings.get("read_tbps")
    return UNKNOWN_CHIP_MARGIN * best, UNKNOWN_CHIP_MARGIN * (read if isinstance(read, int | float) else 0.0)


def burst_rates(ceilings: Mapping[str, Any]) -> dict[str, Any]:
    """The ceilings of single calls after pauses, as kernels are timed; the only ones where one regime was measured."""
    return {**ceilings, **(ceilings.get("burst") or {})}


def floor_ms(case: BaseCase, ceilings: Mapping[str, object]) -> float | None:
    """Roofline floor of the case in ms; None where nothing was measured."""
    rates, read = ceilings.get("matrix_tflops"), ceilings.get("read_tbps")
    if not isinstance(rates, Mapping) or not isinstance(read, int | float):
        return None
    copy = ceilings.get("copy_tbps")
    bandwidth = copy if case.copies and isinstance(copy, int | float) and copy else read
    precisions = (case.matrix_precision, getattr(case, "dtype", ""))
    return max(floors_ms(case.flops, case.least_bytes, precisions, rates, bandwidth)) or None


def floors_ms(
    flops: float, moved_bytes: float, precisions: Sequence[str], rates: Mapping[str, float], tbps: float
) -> tuple[float, float]:
    """Least ms of FLOPs and of bytes at `tbps`; of `rates` (TFLOP/s) the first precision's, else the fastest."""
    rate = next(
        (rates[precision] for precision in precisions if rates.get(precision)), max(rates.values(), default=0.0)
    )
    return flops / rate / 1e9 if rate else 0.0, moved_bytes / tbps / 1e9 if tbps else 0.0
