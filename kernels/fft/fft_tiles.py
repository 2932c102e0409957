"""The sizes of fft_conv.cu, and the spectrum of filters in the order of its registers. Imports without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernels.check_args import C_TYPES
from kernels.ops.fft_conv import FftConvCase, folded

if TYPE_CHECKING:
    from torch import Tensor

SOURCE = Path(__file__).with_name("fft_conv.cu")
LEAST, MOST = 256, 32_768
"""Points of the transforms that one block holds in shared memory."""

PARAMS = np.dtype(
    [(name, np.uint64) for name in ("u", "before", "after", "spectrum", "scales", "skip", "y")]
    + [(name, np.int32) for name in ("batch", "width", "length", "per_filter", "in_fours", "prefetched")],
    align=True,
)
"""`struct Params` of fft_conv.cu."""


@dataclass(frozen=True)
class FftConfig:
    """A block transforms `sequences` sequences of `points` by `threads` threads; `blocks` of them share an SM."""

    points: int
    sequences: int
    threads: int
    blocks: int

    @property
    def stages(self) -> int:
        """Transforms of 16 values beside that along the rows of a tile: 2 from 4,096 points on."""
        return 1 if self.points < 4096 else 2

    @property
    def radix(self) -> int:
        return self.points // (256 if self.stages == 1 else 4096)

    @property
    def shared_bytes(self) -> int:
        """Size of the kernel's `Shared`."""
        tiles, fours = self.sequences * self.points // 256, self.sequences * self.points // self.radix // 4
        return 6144 + -(-fours // 128) * 16 + 4 * tiles * (256 if self.stages == 1 else 264)

    def macros(self, case: FftConvCase) -> dict[str, object]:
        """The macros of fft_conv.cu."""
        return {
            "RADIX": self.radix,
            "STAGES": self.stages,
            "SEQUENCES": self.sequences,
            "THREADS": self.threads,
            "BLOCKS": self.blocks,
            "QUARTER": int(not case.circular),
            "ELEMENT": C_TYPES[case.dtype],
            "SHARED_BYTES": self.shared_bytes,
            "PARAMS_BYTES": PARAMS.itemsize,
        }


def points_of(case: FftConvCase) -> int:
    """The points of a causal convolution's transform: the next power of two of its length."""
    return max(LEAST, 1 << (case.length - 1).bit_length())


def configs(case: FftConvCase) -> list[FftConfig]:
    """The configs worth timing, the best guess first."""
    points = points_of(case)
    if points < 4096:
        return [FftConfig(points, *rest) for rest in ((8, 256, 2), (4, 128, 4), (16, 256, 2))]
    rest = {4096: ((1, 256, 2), (1, 128, 4)), 8192: ((1, 256, 2), (1, 128, 4)), 16_384: ((1, 256, 2), (1, 512, 1))}
    return [FftConfig(points, *each) for each in rest.get(points, ((1, 512, 1),))]


def spectrum(case: FftConvCase, w: "Tensor", points: int, quarter: int) -> "tuple[Tensor, Tensor]":
    """The transform of the taps w [filters, filter] at the frequencies k + quarter / 4, and its scale for each filter.

    int32 words [filters, points]: a complex number in fp16 each, in the order in which fft_conv.cu holds products; and
    float32 [filters], a power of two by which they are to be multiplied.
    """
    import torch

    taps = folded(case, w).double()
    place = torch.arange(taps.shape[1], device=w.device, dtype=torch.float64)
    turned = torch.polar(taps, (-torch.pi * quarter / (2 * points) * place).expand_as(taps))
    found = torch.view_as_real(torch.fft.fft(turned, n=points))
    scale = torch.exp2(found.abs().amax(dim=(1, 2)).clamp_min(1e-30).log2().ceil())
    words = (found / scale[:, None, None]).half().contiguous().view(torch.int32)
    across = 1 if points < 4096 else 16
    digits = words.view(-1, 4, 4, 2, 8, across, points // (256 * across))
    return digits.permute(0, 6, 5, 3, 4, 2, 1).reshape(len(w), points), scale.float()
