"""Convolution of long sequences with long filters, a filter for each channel. Imports without torch."""

import math
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from kernels.ops.base import BLOCK_ELEMENTS, BYTES, Arguments, BaseCase, DType, Outputs

if TYPE_CHECKING:
    from torch import Tensor

    from kernels.proof.inputs import Maker


class FftConvCase(BaseCase):
    """y = conv(u · w_pre, w) · w_post + d · u of u [batch, width, length]; the gates w_pre and w_post are like u.

    w [filters, filter] in float32 has the taps, `filter` of them, and serves width / filters neighbouring channels
    (None: one filter a channel). The convolution is causal, y[n] = Σ w[m] · u[n - m] with u = 0 before the sequence, or
    `circular`, with u repeated. `gated` has the gates, `skip` has d [width] in float32. NaN and infinity anywhere in a
    sequence make all of its y NaN or infinite, as a Fourier transform does.
    """

    part = "long convolutions"
    torch_variants = ("torch_fft",)
    copies = True
    packs_weight = True
    constant = ("w", "d")

    op: Literal["fft_conv"] = "fft_conv"
    batch: int = Field(gt=0)
    width: int = Field(gt=0)
    length: int = Field(gt=0)
    filter: int = Field(gt=0)
    filters: int | None = Field(default=None, gt=0)
    gated: bool = True
    skip: bool = False
    circular: bool = False
    dtype: DType = "bf16"

    @property
    def shape_label(self) -> str:
        return f"the convolution of {self.width} channels over {self.length}"

    @property
    def flops(self) -> float:
        """Two transforms of the padded sequence, 2.5 · n · log2(n) each since it is real, and a complex product."""
        n = self.length * (1 if self.circular else 2)
        return self.batch * self.width * (5.0 * n * math.log2(n) + 3.0 * n if n > 1 else 1.0)

    @property
    def unavoidable_flops(self) -> float:
        return min(self.flops, 2.0 * self.batch * self.width * self.length * min(self.filter, self.length))

    @property
    def least_bytes(self) -> float:
        values = self.batch * self.width * self.length * BYTES[self.dtype]
        return (4 if self.gated else 2) * values + 4.0 * (self.filters or self.width) * self.filter

    @property
    def longest_sum(self) -> int:
        return min(self.filter, self.length)

    def inputs(self, make: "Maker", scale: float) -> Arguments:
        shape = (self.batch, self.width, self.length)
        taps = make.normal(self.filters or self.width, self.filter, scale=1 / math.sqrt(self.longest_sum)).float()
        arguments = {"u": make.normal(*shape, scale=scale), "w": taps}
        if self.gated:
            arguments |= {"w_pre": make.normal(*shape), "w_post": make.normal(*shape)}
        return arguments | ({"d": make.normal(self.width).float()} if self.skip else {})

    def reference(self, arguments: Arguments) -> Outputs:
        return (convolve(self, **arguments),)

    def native(self, arguments: Arguments) -> Outputs:
        wide = {name: value.float() for name, value in arguments.items()}
        return (convolve(self, **wide).to(arguments["u"].dtype),)


def convolve(
    case: FftConvCase,
    u: "Tensor",
    w: "Tensor",
    w_pre: "Tensor | None" = None,
    w_post: "Tensor | None" = None,
    d: "Tensor | None" = None,
) -> "Tensor":
    """y of the case in u's dtype, float32 or float64, by torch's transforms over a few channels at a time."""
    import torch

    n = transform_length(case)
    spectrum = torch.fft.rfft(fold_taps(case, w), n=n)
    y, step = torch.empty_like(u), max(1, BLOCK_ELEMENTS // (case.batch * n))
    for channels in torch.arange(case.width).split(step):
        part = slice(int(channels[0]), int(channels[-1]) + 1)
        filters = spectrum[(channels * spectrum.shape[0] // case.width).to(u.device)]
        x = u[:, part] if w_pre is None else u[:, part] * w_pre[:, part]
        convolved = torch.fft.irfft(torch.fft.rfft(x, n=n) * filters, n=n)[..., : case.length]
        convolved = convolved if w_post is None else convolved * w_post[:, part]
        y[:, part] = convolved if d is None else convolved + d[part, None] * u[:, part]
    return y


def fold_taps(case: FftConvCase, w: "Tensor") -> "Tensor":
    """The taps that count, at most `length` of them: later ones are cut off or, if circular, added to earlier ones."""
    import torch.nn.functional as F

    if not case.circular or case.filter <= case.length:
        return w[:, : case.length]
    rounds = math.ceil(case.filter / case.length)
    return F.pad(w, (0, rounds * case.length - case.filter)).view(len(w), rounds, case.length).sum(dim=1)


def transform_length(case: FftConvCase) -> int:
    """The length of transforms in which nothing wraps around that should not."""
    if case.circular:
        return case.length
    return 1 << (case.length + min(case.filter, case.length) - 2).bit_length() if case.length > 1 else 2
