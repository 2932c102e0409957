"""Long convolutions by a Monarch decomposition of the Fourier transform, on tensor cores, in one kernel."""

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kernels.check_args import C_TYPES, check_served
from kernels.cuda.nvrtc import Build
from kernels.fft import fft_tiles
from kernels.fft.fft_tiles import FftConfig, configs
from kernels.gemm.config_lookup import matching
from kernels.hardware import Gpu
from kernels.ops import FftConvCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch

CONFIG_PARAMS = ("sequences", "threads", "blocks")


@register
class Monarch(Variant):
    """The transform of a sequence as products with 16 × 16 matrices in fp16, sums in float.

    Params: `sequences` that a block transforms at once, its `threads`, and `blocks` that share an SM.
    """

    name = "monarch"
    kernels = ("fft_conv",)
    op = "fft_conv"
    page = "fft-conv"
    summary = "Fourier transforms on tensor cores, gates and filter in one kernel"

    def serves(self, case: FftConvCase, gpu: Gpu) -> Refusal | None:
        if refusal := refused(case, gpu):
            return refusal
        if case.length > fft_tiles.MOST:
            return Refusal(f"length is {case.length}: a block holds at most {fft_tiles.MOST}")
        return None

    def build(self, case: FftConvCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(u, w, w_pre=None, w_post=None, d=None) -> y, with w from `pack`."""
        from kernels.fft.fft_call import FftConv

        check_served(self, case)
        return FftConv(case, config_of(case, params))

    def cuda_builds(self, case: FftConvCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        from kernels.fft.fft_call import build_of

        return [build_of(case, config_of(case, params))]

    def pack(self, case: FftConvCase, params: dict[str, Any], weight: "torch.Tensor") -> Any:
        return fft_tiles.spectrum(case, weight, fft_tiles.points_of(case), int(not case.circular))

    def packing(self, case: FftConvCase, params: dict[str, Any]) -> str:
        return f"{self.name} {case.length} {case.circular}"

    def space(self, case: FftConvCase) -> list[dict[str, Any]]:
        return [{name: asdict(config)[name] for name in CONFIG_PARAMS} for config in configs(case)]


def refused(case: FftConvCase, gpu: Gpu) -> Refusal | None:
    """The refusal of what no kernel of fft_conv.cu takes."""
    if gpu.sm != 90:
        return Refusal(f"device is {gpu.name}: this variant is written for sm_90a")
    if case.dtype not in C_TYPES:
        return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16, since it multiplies in fp16")
    if case.circular and fft_tiles.points_of(case) != case.length:
        return Refusal(f"length is {case.length} and circular: this variant takes powers of two from {fft_tiles.LEAST}")
    if case.width % (case.filters or case.width):
        return Refusal(f"width is {case.width}, not a multiple of filters {case.filters}")
    return None


def config_of(case: FftConvCase, params: dict[str, Any]) -> FftConfig:
    """The config that params name; without params the best guess. Raises ValueError that names a wrong param."""
    unknown = set(params) - {*CONFIG_PARAMS}
    if unknown:
        raise ValueError(f"monarch takes {', '.join(CONFIG_PARAMS)}, not {', '.join(sorted(unknown))}")
    config = matching(configs(case), params, CONFIG_PARAMS)
    if config is None:
        raise ValueError(f"{', '.join(CONFIG_PARAMS)}: no config of {case.key} has {params}")
    return config
