"""Causal convolutions with few taps, as products with Toeplitz matrices on tensor cores."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.check_args import check_served, merge_params
from kernels.cuda.nvrtc import Build
from kernels.fft import fft_tiles
from kernels.fft.monarch import refused
from kernels.hardware import Gpu
from kernels.ops import FftConvCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch

MAX_TAPS = 129
"""The matrices of more taps take too many registers."""


@register
class Toeplitz(Variant):
    """Sixteen outputs at a time, from registers. Param: `segment`, the groups of 16 outputs of one lane."""

    name = "toeplitz"
    kernels = ("short_conv",)
    op = "fft_conv"
    page = "short-conv"
    summary = "few taps: products with Toeplitz matrices on tensor cores"

    def serves(self, case: FftConvCase, gpu: Gpu) -> Refusal | None:
        if refusal := refused(case, gpu):
            return refusal
        if case.filter > MAX_TAPS:
            return Refusal(f"filter is {case.filter}: this variant takes at most {MAX_TAPS} taps")
        if case.circular:
            return Refusal("circular is True: this variant is causal")
        if case.gated and case.dtype == "fp16":
            return Refusal("dtype is fp16 and gated: u · w_pre may leave the range of fp16")
        return None

    def build(self, case: FftConvCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(u, w, w_pre=None, w_post=None, d=None) -> y, with w from `pack`."""
        from kernels.fft.short_call import ShortConv

        check_served(self, case)
        return ShortConv(case, self._segment(case, params))

    def cuda_builds(self, case: FftConvCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        from kernels.fft.short_call import build_of

        return [build_of(case, self._segment(case, params))]

    def pack(self, case: FftConvCase, params: dict[str, Any], weight: "torch.Tensor") -> Any:
        """The taps in the dtype of the case, scaled to at most 1, and their scales: powers of two."""
        from kernels.dtypes import DTYPES

        scale = fft_tiles.power_of_two(weight.abs().amax(dim=1))
        return (weight / scale[:, None]).to(DTYPES[case.dtype]).contiguous(), scale

    def packing(self, case: FftConvCase, params: dict[str, Any]) -> str:
        return f"{self.name} {case.dtype}"

    def space(self, case: FftConvCase) -> list[dict[str, Any]]:
        return [{"segment": segment} for segment in _segments(case)]

    def _segment(self, case: FftConvCase, params: dict[str, Any]) -> int:
        segment = int(merge_params(self.name, params, {"segment": _segments(case)[0]})["segment"])
        if segment not in _segments(case):
            raise ValueError(f"segment is {segment}, not one of {', '.join(map(str, _segments(case)))}")
        return segment


def _segments(case: FftConvCase) -> list[int]:
    """A warp's 16 segments together are at most about as long as the sequence."""
    longest = max(4, min(64, 1 << (case.length // 256).bit_length() - 1)) if case.length >= 256 else 4
    return [segment for segment in (longest, longest // 2, longest // 4) if segment >= 4]
