"""Shapes of long convolutions. Imports without torch."""

from typing import Any

from kernels.ops import Case, DType, FftConvCase

LENGTHS = (256, 1024, 4096, 8192, 16_384, 32_768)
"""The lengths at which FlashFFTConv's paper gives times, up to what one block holds."""


def bench(cpu: bool) -> list[Case]:
    """FlashFFTConv's shape, 64 sequences of 768 channels, gated, fewer above 8,192, since the references of 64 do not
    fit; one sequence of Evo 2's width; a million values; filters of 7 and 128 taps. A tiny one on a CPU.
    """
    if cpu:
        return [FftConvCase(batch=1, width=4, length=300, filter=300, dtype="fp32")]
    batches = {length: min(64, 64 * 8192 // length) for length in LENGTHS}
    long: list[Case] = [
        FftConvCase(batch=batches[length], width=768, length=length, filter=length) for length in LENGTHS
    ]
    wide = [FftConvCase(batch=1, width=4096, length=1 << log, filter=1 << log) for log in (13, 14, 15, 16, 17)]
    short = [FftConvCase(batch=1, width=4096, length=8192, filter=taps) for taps in (7, 128)]
    return [*long, *wide, FftConvCase(batch=1, width=384, length=1 << 20, filter=1 << 20), *short]


def check(dtype: DType, cpu: bool) -> list[Case]:
    """Odd lengths, filters short and long, shared, circular; on a GPU up to what needs several kernels."""
    shapes = [(4, 64, 1, 4), (3, 2, 301, 301), (2, 4, 256, 7), (1, 2, 1000, 3000)]
    if not cpu:
        shapes += [
            (9, 3, 2047, 128),
            (5, 7, 4096, 4096),
            (3, 5, 8191, 9000),
            (2, 3, 16_384, 16_384),
            (3, 4, 30_001, 30_001),
        ]
        shapes += [(1, 3, 65_536, 65_536), (1, 2, 130_001, 130_001), (1, 1, 1 << 20, 1 << 20)]
    plain = [
        FftConvCase(batch=batch, width=width, length=length, filter=taps, gated=position % 2 == 0, dtype=dtype)
        for position, (batch, width, length, taps) in enumerate(shapes)
    ]
    length = 300 if cpu else 8192
    more: list[dict[str, Any]] = [{"skip": True}, {"filters": 2}, {"circular": True}]
    more += [{"circular": True, "filter": 3 * length - 5}, {"filter": 7, "skip": True}, {"filter": 128, "gated": False}]
    base = FftConvCase(batch=3, width=6, length=length, filter=length, dtype=dtype)
    return [*plain, *(base.model_copy(update=update) for update in more)]
