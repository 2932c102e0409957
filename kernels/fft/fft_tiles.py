"""The sizes of fft_conv.cu, fft_rows.cu and fft_outer.cu, and the spectra that they read. Imports without torch."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernels.check_args import C_TYPES
from kernels.ops.base import BLOCK_ELEMENTS
from kernels.ops.fft_conv import FftConvCase, fold_taps

if TYPE_CHECKING:
    from torch import Tensor

OUTER = Path(__file__).with_name("fft_outer.cu")
MIN_LENGTH, MAX_LENGTH, MAX_MONARCH_LENGTH = 256, 32_768, 1 << 21
"""Points of the transforms that one block holds in shared memory, and the most in several passes."""
CHUNK = 256 << 20
"""Bytes of the workspace between the passes."""
CONSTANTS = 4096
"""Bytes of the matrices and twiddles of a block."""

POINTERS = ("u", "before", "after", "spectrum", "scales", "skip", "y", "workspace", "exponents")
NUMBERS = ("width", "length", "prefetched", "begin", "end")
PARAMS = np.dtype([*((name, np.uint64) for name in POINTERS), *((name, np.int32) for name in NUMBERS)], align=True)
"""`struct Params` of sequences.cuh."""


@dataclass(frozen=True)
class FftConfig:
    """A block transforms `points` values, or 4,096 of several sequences, by `threads` threads; `blocks` share an SM. A
    longer sequence is `outer` of these, `strip` columns of them at once.
    """

    points: int
    threads: int
    blocks: int
    outer: int = 1
    strip: int = 64

    @property
    def sequences(self) -> int:
        """Sequences of a block."""
        return 1 if self.outer > 1 else max(1, 4096 // self.points)

    @property
    def halves(self) -> int:
        """Parts of the rows that fft_conv.cu transforms apart: at most 64 in each."""
        return 1 if self.points <= 16_384 else 2

    @property
    def entry(self) -> str:
        """The kernel that multiplies with the spectrum."""
        return "fft_conv" if self.outer == 1 else "fft_conv_rows"

    @property
    def source(self) -> Path:
        return OUTER.with_name("fft_conv.cu" if self.outer == 1 else "fft_rows.cu")

    @property
    def shared_bytes(self) -> int:
        """Size of its `Shared`."""
        rows = self.points // 256 * self.sequences
        operands = rows**2 // 64 if self.outer > 1 else 2 * (rows // self.halves) ** 2 // 128
        largest = -(-8 * self.sequences // 16) * 16 * (self.outer == 1)
        joints = (512 if self.halves == 2 else 16) * (self.outer == 1)
        twiddles = 128 * (self.points // 256) + 64
        return CONSTANTS + twiddles + joints + 512 * operands + largest + 4 * rows * 272

    @property
    def outer_threads(self) -> int:
        return min(256, 4 * self.strip)

    @property
    def outer_shared_bytes(self) -> int:
        """Size of `Shared` of fft_outer.cu."""
        return -(-self.outer_threads // 128) * 16 + 4 * self.outer * (self.strip + 8)

    def macros(self, case: FftConvCase) -> dict[str, object]:
        return common_macros(case, self.outer, self.strip) | {
            "POINTS": self.points,
            "SEQUENCES": self.sequences,
            "HALVES": self.halves,
            "THREADS": self.threads,
            "BLOCKS": self.blocks,
            "SHARED_BYTES": self.shared_bytes,
        }

    def outer_macros(self, case: FftConvCase) -> dict[str, object]:
        """The macros of fft_outer.cu."""
        return common_macros(case, self.outer, self.strip) | {
            "RADIX": self.outer // 16,
            "POINTS": self.points,
            "THREADS": self.outer_threads,
            "SHARED_BYTES": self.outer_shared_bytes,
        }


def common_macros(case: FftConvCase, outer: int = 1, strip: int = 64) -> dict[str, object]:
    """The macros of sequences.cuh."""
    return {
        "QUARTER": int(not case.circular),
        "ELEMENT": C_TYPES[case.dtype],
        "BATCH": case.batch,
        "PER_FILTER": case.width // (case.filters or case.width),
        "OUTER": outer,
        "STRIP": strip,
        "GATED": int(case.gated),
        "SKIP": int(case.skip),
        "FOURS": int(case.length % 4 == 0),
        "FULL": int(case.length == points_of(case)),
        "PARAMS_BYTES": PARAMS.itemsize,
    }


def points_of(case: FftConvCase) -> int:
    """The points of a causal convolution's transform: the next power of two of its length."""
    return max(MIN_LENGTH, 1 << (case.length - 1).bit_length())


def configs(case: FftConvCase) -> list[FftConfig]:
    """The config of one block for each sequence or for several: others were slower on an H200."""
    points = points_of(case)
    threads, blocks = {2048: (256, 2), 16_384: (256, 2), 32_768: (512, 1)}.get(points, (128, 4))
    return [FftConfig(points, threads, blocks)]


def long_configs(case: FftConvCase) -> list[FftConfig]:
    """The same of several passes over a workspace, the best guess first."""
    total = points_of(case)
    parts = {outer: total // outer for outer in (128, 64, 32, 16)}
    return [
        FftConfig(points, 256, 2, outer, 128 if outer == 16 else 64)
        for outer, points in parts.items()
        if 4096 <= points <= 16_384
    ]


def spectrum(case: FftConvCase, w: "Tensor", config: FftConfig) -> "tuple[Tensor, Tensor]":
    """The transform of the taps w [filters, filter] as the kernels of this config read it.

    int32 words [filters, outer · points]: the real or the imaginary parts of two numbers in fp16 each, in the order in
    which fft_conv.cu holds products; and float32 [filters], a power of two by which they are to be multiplied.
    """
    import torch

    step = max(1, BLOCK_ELEMENTS // (config.outer * config.points))
    parts = [_spectrum(case, part, config) for part in fold_taps(case, w).double().split(step)]
    words, scales = zip(*parts, strict=True)
    return torch.cat(words), torch.cat(scales)


def _spectrum(case: FftConvCase, taps: "Tensor", config: FftConfig) -> "tuple[Tensor, Tensor]":
    import torch

    total, points = config.outer * config.points, config.points
    tap = torch.arange(taps.shape[1], device=taps.device, dtype=torch.float64)
    turned = torch.polar(taps, (-math.pi / (2 * total) * (not case.circular) * tap).expand_as(taps))
    transformed = torch.view_as_real(torch.fft.fft(turned, n=total))
    scale = power_of_two(transformed.abs().amax(dim=(1, 2)))
    halves = (transformed / scale[:, None, None]).half()
    digits = halves.view(-1, 2, 2, 4, 2, 8, points // 256, config.outer, 2).permute(0, 7, 6, 4, 5, 3, 1, 8, 2)
    return digits.reshape(len(taps), 2 * total).view(torch.int32), scale.float()


def power_of_two(largest: "Tensor") -> "Tensor":
    """The least power of two that is not below each value; NaN and infinity stay."""
    return largest.clamp_min(1e-30).log2().ceil().exp2()
