"""Products with up to 16 rows of x, as decoding needs them: the weights are read once, at memory bandwidth."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernels.check_args import check_served
from kernels.cuda.nvrtc import Build
from kernels.gemm import config_lookup
from kernels.gemm.skinny_tiles import TileConfig, can_schedule_dynamically, configs, packing_of, weight_kind
from kernels.hardware import Gpu
from kernels.ops import LinearCase, LmHeadCase
from kernels.registry import Refusal, Variant, register, register_like

if TYPE_CHECKING:
    import torch

MAX_ROWS = 16
CONFIG_PARAMS = ("splits", "k_warps", "row_tiles", "warps")
LAUNCH_PARAMS = ("pdl", "l2_prefetch", "late_trigger", "dynamic")


def streamed_refusal(case: LinearCase | LmHeadCase, gpu: Gpu, weights: str) -> Refusal | None:
    """What a product that streams its weight refuses, of weights in this precision; "" is the activations' own."""
    if gpu.sm != 90:
        return Refusal(f"device is {gpu.name}: this variant is written for sm_90a")
    if case.dtype not in ("bf16", "fp16"):
        return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16")
    if case.weights != (weights or case.dtype):
        return Refusal(f"weights is {case.weights}: this variant multiplies {weights or case.dtype}")
    if case.m > MAX_ROWS:
        return Refusal(f"m is {case.m}: this variant takes up to {MAX_ROWS} rows")
    if case.k % 8:
        return Refusal(f"k is {case.k}: this variant reads 8 values at once")
    return None


class _Skinny(Variant):
    """The base of the variants of all weight types.

    Params:
    - `splits`, `k_warps`, `row_tiles`, `warps`: the tile config, the same for `pack` and `build`.
    - `pdl`: a programmatic dependent launch. The kernel reads weights, their scales and the bias before the previous
      kernel has ended, so no kernel that may still run may write them.
    - `l2_prefetch`: KiB beyond its ring that each block brings into the L2.
    - `late_trigger`: the next dependent launch begins when all weights of this one have been requested, not at once.
    - `dynamic`: a dynamic scheduler. Blocks claim the last units one by one. Two launches must not use one weight at
      the same time.
    """

    op = "linear"
    page = "skinny-gemm"
    kernels = ("skinny_linear",)
    weights: str = ""
    in_a_model = (
        {"pdl": True, "l2_prefetch": 64, "late_trigger": False, "dynamic": False},
        {"pdl": True, "l2_prefetch": 0, "late_trigger": False, "dynamic": False},
        {"pdl": True, "l2_prefetch": 0, "late_trigger": True, "dynamic": False},
    )

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if refusal := streamed_refusal(case, gpu, self.weights):
            return refusal
        if case.scales is not None:
            return Refusal(f"scales is {case.scales}: this variant takes x in {case.dtype}")
        if case.epilogue == "quantise":
            return Refusal("epilogue is quantise: this variant writes the activations' type")
        if not _configs(case):
            return Refusal(f"k is {case.k}: {case.m} rows of it do not fit into shared memory")
        return None

    def build(self, case: LinearCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(x [m, k], w, bias=None [n], residual=None [m, n], eps=1e-6) -> y [m, n]; w is what `pack` returned."""
        from kernels.gemm.skinny_call import SkinnyLinear

        check_served(self, case)
        pdl, late_trigger, dynamic = (bool(params.get(name)) for name in ("pdl", "late_trigger", "dynamic"))
        prefetch_bytes = 1024 * params.get("l2_prefetch", 0)
        return SkinnyLinear(case, config_of(case, params), pdl, prefetch_bytes, late_trigger, dynamic)

    def cuda_builds(self, case: LinearCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        from kernels.gemm.skinny_call import build_of

        return [build_of(config_of(case, params), case, bool(params.get("dynamic")))]

    def space(self, case: LinearCase) -> list[dict[str, Any]]:
        """The best guess, the best with half and twice its warps, and the best with another number of splits."""
        candidates = _configs(case)
        best = candidates[0]
        alike = [config for config in candidates if config.splits == best.splits and config.warps != best.warps][:1]
        other = [config for config in candidates if config.splits != best.splits and config.splits < 4][:1]
        return [_params(config) for config in (best, *alike, *other)]

    def for_model(self, case: LinearCase) -> Sequence[Mapping[str, Any]]:
        if not can_schedule_dynamically(_configs(case)[0], case):
            return self.in_a_model
        first, *others = ({**params, "dynamic": True} for params in self.in_a_model)
        return (others[0], first, *others[1:], *self.in_a_model)

    def resized(self, case: LinearCase, params: dict[str, Any]) -> dict[str, Any]:
        return config_lookup.resize_config(_configs(case), params, CONFIG_PARAMS)

    def pack(self, case: LinearCase, params: dict[str, Any], weight: "torch.Tensor") -> "tuple[torch.Tensor, ...]":
        """(stream uint8,), of fp8 and nvfp4 with the scales of packed rows. Raises ValueError for another shape."""
        from kernels.gemm.skinny_call import pack_weight

        if tuple(weight.shape) != (case.weight_rows, case.k):
            raise ValueError(f"weight has shape {list(weight.shape)}, not [{case.weight_rows}, {case.k}]")
        return pack_weight(config_of(case, params), weight, case.dtype, case.gates)

    def packing(self, case: LinearCase, params: dict[str, Any]) -> str:
        return packing_of(config_of(case, params), case.gates)


@register
class Skinny(_Skinny):
    """Weights of the activations' own type."""

    name = "skinny"
    summary = "streamed product for up to 16 rows"


class RoundedWeights:
    """The base of the variants that lower the precision of their weights, of products and of LM heads."""

    lossy = True
    weights: str

    def rounded(self, case: Any, params: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        from kernels.quant.absmax import quantise_absmax, values

        return arguments | {"w": values(quantise_absmax(arguments["w"], self.weights))}


class _Lossy(RoundedWeights, _Skinny):
    pass


WEIGHTS = {
    "fp8": "fp8 weights, a power of two per row",  # e4m3
    "int8": "int8 weights, a scale per 32",  # scales are float16
    "nvfp4": "NVFP4 weights, absmax scales",  # e2m1 with an e4m3 scale per 16, in NVFP4's layout of numbers
    "int4": "int4 weights, a scale per 32",
    "int4_zero": "int4 weights, a scale and a zero point per 64",  # of groups of 64 or 128 as AWQ's
    "int4_minimum": "int4 weights, a scale and a minimum per 32",  # as GGUF's Q4_1
}
for weights, described in WEIGHTS.items():
    described = f"{Skinny.summary}, {described}"
    register_like(_Lossy, __name__, name=f"skinny_{weights}", summary=described, weights=weights)


def _configs(case: LinearCase) -> tuple[TileConfig, ...]:
    rows = 2 * (-(-case.n // 8) * 8) if case.gates else case.n
    row_bytes = 4 * case.adds_bias + 2 * case.m * (case.epilogue == "residual")
    return configs(weight_kind(case), max(1, case.m), rows, case.k, row_bytes=row_bytes)


def _params(config: TileConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in CONFIG_PARAMS}


def config_of(case: LinearCase, params: dict[str, Any]) -> TileConfig:
    """The tile config that params name; without params the best guess. Raises ValueError that names a wrong param."""
    return config_lookup.config_of("skinny", case.key, _configs(case), params, CONFIG_PARAMS, LAUNCH_PARAMS)
