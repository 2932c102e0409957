"""Products with 9 to 256 rows of x, as prompts need them: k split over a cluster, joined in a fixed order."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.check_args import check_served
from kernels.cuda.nvrtc import Build
from kernels.gemm import config_lookup
from kernels.gemm.skinny import RoundedWeights
from kernels.gemm.small_tiles import SmallTileConfig, configs
from kernels.hardware import Gpu
from kernels.ops import LinearCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch

MIN_ROWS, MAX_ROWS = 9, 256
CONFIG_PARAMS = ("groups", "splits", "tokens", "wide")
TRIED = 4
"""How many tile configs are worth timing."""


class _Small(Variant):
    """The transposed product on warpgroup matrix instructions (wgmma).

    Params:
    - `groups`: warpgroups of a block, each with 64 rows of w.
    - `splits`: blocks that divide k.
    - `tokens`: tiles of rows of x.
    - `wide`: rows of w of a block when each warpgroup has 64 rows of x instead; 0 otherwise.
    - `pdl`: a programmatic dependent launch. The kernel reads w before the previous kernel has ended, so no kernel that
      may still run may write it.
    """

    kernels = ("small_gemm",)
    op = "linear"
    page = "small-gemm"
    in_a_model = ({"pdl": True},)

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != 90:
            return Refusal(f"device is {gpu.name}: this variant is written for sm_90a")
        if refusal := self._types(case):
            return refusal
        if not MIN_ROWS <= case.m <= MAX_ROWS:
            return Refusal(f"m is {case.m}: this variant takes {MIN_ROWS} to {MAX_ROWS} rows")
        if case.k % 8:
            return Refusal(f"k is {case.k}: the copy engine needs rows of a multiple of 16 bytes")
        if case.n % 8:
            return Refusal(f"n is {case.n}: rows of y must begin at multiples of 16 bytes")
        if case.epilogue == "quantise":
            return Refusal("epilogue is quantise: this variant writes the activations' type")
        return None

    def _types(self, case: LinearCase) -> Refusal | None:
        if case.dtype not in ("bf16", "fp16"):
            return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16")
        if case.weights != case.dtype or case.scales is not None:
            return Refusal(
                f"weights is {case.weights} and dtype {case.dtype}: this variant multiplies equal types only"
            )
        return None

    def build(self, case: LinearCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(x [m, k], w, bias=None [n], residual=None [m, n], eps=1e-6) -> y [m, n]; w is what `pack` returned."""
        from kernels.gemm.small_call import SmallLinear

        check_served(self, case)
        return SmallLinear(case, config_of(case, params), bool(params.get("pdl")))

    def cuda_builds(self, case: LinearCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        from kernels.gemm.small_call import build_of

        return [build_of(config_of(case, params))]

    def space(self, case: LinearCase) -> list[dict[str, Any]]:
        """The best guesses."""
        return [{name: getattr(config, name) for name in CONFIG_PARAMS} for config in configs(case)[:TRIED]]

    def resized(self, case: LinearCase, params: dict[str, Any]) -> dict[str, Any]:
        return config_lookup.resize_config(configs(case), params, CONFIG_PARAMS)


@register
class SmallGemm(_Small):
    """The weights [weight_rows, k] are not packed."""

    name = "small_gemm"
    summary = "split product for 9 to 256 rows"


class _Widened(_Small):
    """Weights of 8 bits, which become bf16 in registers."""

    lossy = True
    weights: str

    def _types(self, case: LinearCase) -> Refusal | None:
        if case.dtype != "bf16":
            return Refusal(f"dtype is {case.dtype}: this variant takes bf16")
        if case.weights != self.weights or case.scales is not None:
            return Refusal(f"weights is {case.weights} with {case.scaling}: this variant multiplies {self.weights}")
        return None

    def pack(self, case: LinearCase, params: dict[str, Any], weight: "torch.Tensor") -> "torch.Tensor":
        """The stream of `small_pack`. Raises ValueError when weight is not [weight_rows, k]."""
        from kernels.gemm.skinny_pack import pair_gate_up
        from kernels.gemm.small_pack import pack_fp8, pack_int8
        from kernels.quant.quantised_matrix import QUANTISERS, QuantisedMatrix

        if tuple(weight.shape) != (case.weight_rows, case.k):
            raise ValueError(f"weight has shape {list(weight.shape)}, not [{case.weight_rows}, {case.k}]")
        quantised = QUANTISERS[self.weights](weight)
        if case.gates:
            blocks = None if quantised.block_scales is None else pair_gate_up(quantised.block_scales)
            quantised = QuantisedMatrix(pair_gate_up(quantised.codes), pair_gate_up(quantised.row_scales), blocks)
        return pack_int8(quantised) if self.weights == "int8" else pack_fp8(quantised)

    def packing(self, case: LinearCase, params: dict[str, Any]) -> str:
        return f"{self.name} {case.gates}"


@register
class SmallGemmFp8(RoundedWeights, _Widened):
    """e4m3 weights, whose rows' float32 scales multiply the sums."""

    name = "small_gemm_fp8"
    summary = "split product for 9 to 256 rows, fp8 weights, a scale per row"
    weights = "fp8"


@register
class SmallGemmInt8(_Widened):
    """int8 weights with a float16 scale per 32."""

    name = "small_gemm_int8"
    summary = "split product for 9 to 256 rows, int8 weights, a scale per 32"
    weights = "int8"

    def rounded(self, case: LinearCase, params: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        """The values that the products take, which are rounded once more to bf16."""
        from kernels.quant.quantised_matrix import rounded

        return arguments | {"w": rounded(arguments["w"], "int8").float()}


def config_of(case: LinearCase, params: dict[str, Any]) -> SmallTileConfig:
    """The tile config that params name; without params the best guess. Raises ValueError that names a wrong param."""
    return config_lookup.config_of("small_gemm", case.key, configs(case), params, CONFIG_PARAMS, ("pdl",))
