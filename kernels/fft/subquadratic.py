"""Long convolutions by NVIDIA's subquadratic-ops-torch, a proprietary package that this project does not install."""

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.fft.torch_fft import TorchFft
from kernels.hardware import Gpu
from kernels.ops import FftConvCase
from kernels.ops.fft_conv import fold_taps
from kernels.registry import Peer, Refusal, register

if TYPE_CHECKING:
    import torch

PACKAGE = "subquadratic_ops_torch"
MIN_TAPS = 128
"""The package pads shorter filters to so many taps, and all to a power of two."""


@register
class Subquadratic(Peer):
    """`fft_causal_conv1d`, for filters of any length: the package's direct product, `causal_conv1d`, needs cuDNN 9.24.

    It takes u and the taps in one dtype: the case's, or float32 where d is added, since bf16 rounds too often for the
    gate then. The gates of u and y are a kernel of torch each: there is nothing to fuse.
    """

    name = "subquadratic"
    op = "fft_conv"
    summary = "NVIDIA's fft_causal_conv1d of subquadratic-ops-torch, the gates by torch"

    def serves(self, case: FftConvCase, gpu: Gpu) -> Refusal | None:
        if gpu.gpu_class == "cpu":
            return Refusal("device is CPU: this package runs on NVIDIA GPUs only")
        if case.dtype == "fp16":
            return Refusal("dtype is fp16: this package keeps transforms of long sequences in it, which may overflow")
        if case.circular:
            return Refusal("circular is True: this package's long convolutions are causal")
        if refusal := TorchFft().serves(case, gpu):
            return refusal
        if importlib.util.find_spec(PACKAGE) is None:
            return Refusal(f"{PACKAGE} is not installed: this variant calls NVIDIA's package")
        return None

    def function(self, case: FftConvCase) -> Callable[..., Any]:
        from kernels.cuda import compiler

        compiler.version()  # loads NVRTC, which the package is linked with and does not look for
        convolution = importlib.import_module(f"{PACKAGE}.fft_causal_conv1d").fft_causal_conv1d

        def convolve(u: Any, w: Any, w_pre: Any = None, w_post: Any = None, d: Any = None) -> Any:
            x = u.float() if case.skip else u
            y = convolution(x if w_pre is None else x * w_pre, w)
            y = y if w_post is None else y * w_post
            return y if d is None else (y + d[:, None] * u).to(u.dtype)

        return convolve

    def pack(self, case: FftConvCase, params: dict[str, Any], weight: "torch.Tensor") -> "torch.Tensor":
        """The taps for each channel, in u's dtype and padded as the package would in each call."""
        import torch.nn.functional as F

        from kernels.dtypes import DTYPES

        taps = fold_taps(case, weight).repeat_interleave(case.width // len(weight), dim=0)
        taps = taps if case.skip else taps.to(DTYPES[case.dtype])
        padded = max(MIN_TAPS, 1 << (taps.shape[1] - 1).bit_length())
        return F.pad(taps, (0, padded - taps.shape[1]))
