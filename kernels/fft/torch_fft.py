"""torch's variants of long convolutions."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.hardware import Gpu
from kernels.ops import FftConvCase
from kernels.ops.fft_conv import fold_taps, transform_length
from kernels.registry import Peer, Refusal, register
from kernels.torch_compiled import Compiled

if TYPE_CHECKING:
    import torch


MAX_TAPS = 256
"""The most taps of a convolution without transforms."""


@register
class TorchFft(Peer):
    """cuFFT's real transforms in float32; the filter's is made ahead."""

    name = "torch_fft"
    op = "fft_conv"
    summary = "torch's real Fourier transforms in float32, the filter's made ahead"

    def serves(self, case: FftConvCase, gpu: Gpu) -> Refusal | None:
        if case.width % (case.filters or case.width):
            return Refusal(f"width is {case.width}, not a multiple of filters {case.filters}")
        return None

    def function(self, case: FftConvCase) -> Callable[..., Any]:
        import torch

        n, per_filter = transform_length(case), case.width // (case.filters or case.width)

        def convolve(u: Any, w: Any, w_pre: Any = None, w_post: Any = None, d: Any = None) -> Any:
            x = u.float() if w_pre is None else u.float() * w_pre
            spectrum = torch.fft.rfft(x, n=n).unflatten(1, (-1, per_filter)) * torch.view_as_complex(w)[:, None]
            y = torch.fft.irfft(spectrum.flatten(1, 2), n=n)[..., : case.length]
            y = y if w_post is None else y * w_post
            return (y if d is None else y + d[:, None] * u).to(u.dtype)

        return convolve

    def pack(self, case: FftConvCase, params: dict[str, Any], weight: "torch.Tensor") -> "torch.Tensor":
        import torch

        return torch.view_as_real(torch.fft.rfft(fold_taps(case, weight), n=transform_length(case)))


@register
class TorchFftCompiled(Compiled):
    """The same, with generated kernels for what surrounds the transforms."""

    name = "torch_fft_compiled"
    op = "fft_conv"
    summary = "torch's real Fourier transforms, what surrounds them compiled by Inductor"
    eager = TorchFft

    def pack(self, case: FftConvCase, params: dict[str, Any], weight: "torch.Tensor") -> "torch.Tensor":
        return TorchFft().pack(case, params, weight)


@register
class TorchConv1d(Peer):
    """cuDNN's convolution in float32 with a filter for each channel: in bf16 it rounds once too often for the gate."""

    name = "torch_conv1d"
    op = "fft_conv"
    summary = "torch's conv1d in float32 with as many groups as channels"

    def serves(self, case: FftConvCase, gpu: Gpu) -> Refusal | None:
        if case.filter > MAX_TAPS:
            return Refusal(f"filter is {case.filter}: beyond {MAX_TAPS} taps transforms are faster")
        if case.circular:
            return Refusal("circular is True: torch pads with zeros")
        return TorchFft().serves(case, gpu)

    def function(self, case: FftConvCase) -> Callable[..., Any]:
        import torch.nn.functional as F

        def convolve(u: Any, w: Any, w_pre: Any = None, w_post: Any = None, d: Any = None) -> Any:
            x = u.float() if w_pre is None else u.float() * w_pre
            y = F.conv1d(x, w, padding=case.filter - 1, groups=case.width)[..., : case.length]
            y = y if w_post is None else y * w_post
            return (y if d is None else y + d[:, None] * u).to(u.dtype)

        return convolve

    def pack(self, case: FftConvCase, params: dict[str, Any], weight: "torch.Tensor") -> "torch.Tensor":
        """The taps backwards, for each channel."""
        return weight.flip(1).repeat_interleave(case.width // len(weight), dim=0)[:, None].contiguous()
