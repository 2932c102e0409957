"""Long convolutions by a Monarch decomposition of the Fourier transform, on tensor cores, in one kernel."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from kernels.check_args import C_TYPES, check_served
from kernels.cuda.nvrtc import Build
from kernels.fft import fft_tiles
from kernels.fft.fft_tiles import FftConfig, configs, long_configs
from kernels.gemm.config_lookup import config_of, resize_config
from kernels.hardware import Gpu
from kernels.ops import FftConvCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch


@register
class Monarch(Variant):
    """The transform of a sequence as products with small matrices in fp16, sums in float."""

    name = "monarch"
    kernels: ClassVar[tuple[str, ...]] = ("fft_conv",)
    op = "fft_conv"
    page = "fft-conv"
    summary = "Fourier transforms on tensor cores, gates and filter in one kernel"
    names: ClassVar[tuple[str, ...]] = ()
    least, most = 1, fft_tiles.MAX_LENGTH

    def configs(self, case: FftConvCase) -> list[FftConfig]:
        return configs(case)

    def serves(self, case: FftConvCase, gpu: Gpu) -> Refusal | None:
        if refusal := refused(case, gpu):
            return refusal
        if case.dtype == "fp16":
            return Refusal("dtype is fp16: this variant rounds to fp16 too often for it")
        if not self.least <= case.length <= self.most:
            return Refusal(f"length is {case.length}: this variant takes {self.least} to {self.most}")
        return None

    def build(self, case: FftConvCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(u, w, w_pre=None, w_post=None, d=None) -> y, with w from `pack`."""
        from kernels.fft.fft_call import FftConv

        check_served(self, case)
        return FftConv(case, self.config_of(case, params))

    def cuda_builds(self, case: FftConvCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        from kernels.fft.fft_call import builds_of

        return builds_of(case, self.config_of(case, params))

    def pack(self, case: FftConvCase, params: dict[str, Any], weight: "torch.Tensor") -> Any:
        return fft_tiles.spectrum(case, weight, self.config_of(case, params))

    def packing(self, case: FftConvCase, params: dict[str, Any]) -> str:
        return f"monarch {case.length} {case.filter} {case.circular} {self.config_of(case, params).outer}"

    def space(self, case: FftConvCase) -> list[dict[str, Any]]:
        return [{name: getattr(config, name) for name in self.names} for config in self.configs(case)]

    def resized(self, case: FftConvCase, params: dict[str, Any]) -> dict[str, Any]:
        return resize_config(self.configs(case), params, self.names)

    def config_of(self, case: FftConvCase, params: dict[str, Any]) -> FftConfig:
        """The config that params name; without params the best guess. Raises ValueError that names a wrong param."""
        return config_of(self.name, case.key, self.configs(case), params, self.names, ())


@register
class MonarchLong(Monarch):
    """In three passes: over rows, `monarch`'s kernel on each, and back. Param: `outer`, the rows of a sequence."""

    name = "monarch_long"
    kernels = ("fft_outer_forward", "fft_conv_rows", "fft_outer_backward")
    summary = "Fourier transforms on tensor cores in three passes over a workspace"
    names = ("outer",)
    least, most = fft_tiles.MAX_LENGTH + 1, fft_tiles.MAX_MONARCH_LENGTH

    def configs(self, case: FftConvCase) -> list[FftConfig]:
        return long_configs(case)


def refused(case: FftConvCase, gpu: Gpu) -> Refusal | None:
    """The refusal of what no kernel of fft_conv.cu takes."""
    if gpu.sm != 90:
        return Refusal(f"device is {gpu.name}: this variant is written for sm_90a")
    if case.dtype not in C_TYPES:
        return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16, since it multiplies in fp16")
    if case.circular and fft_tiles.points_of(case) != case.length:
        return Refusal(
            f"length is {case.length} and circular: this variant takes powers of two from {fft_tiles.MIN_LENGTH}"
        )
    if case.width % (case.filters or case.width):
        return Refusal(f"width is {case.width}, not a multiple of filters {case.filters}")
    return None
