"""Products with up to 16 rows of x, as decoding needs them: the weights are streamed once, at the memory's speed."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernels.check_args import check_served
from kernels.gemm.cutting import matching, resized
from kernels.gemm.skinny_cut import Cut, can_claim, cuts, weight_kind
from kernels.hardware import Gpu
from kernels.ops import LinearCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch

MOST_ROWS = 16
CUTS = ("splits", "k_warps", "row_tiles", "warps")
PARAMS = (*CUTS, "overlap", "ahead", "late", "claims", "zero")


class _Skinny(Variant):
    """What the variants of all weight types share.

    Params: `splits`, `k_warps`, `row_tiles`, `warps` (how the product is cut; the same for `pack` and `build`),
    `overlap` (a dependent launch: weights, their scales and the bias are read before the kernel ahead has ended, so
    they must have been written, and waited for, long before), `ahead` (KiB beyond its ring that each block then brings
    into the L2), `late` (a dependent launch after this one begins when all weights of this one are on their way, not
    at once), `claims` (blocks claim the last units as they come to them: no two launches with one weight at once),
    `zero` (int4: with a zero per group).
    """

    op = "linear"
    page = "skinny-gemm"
    weights: str = ""
    in_a_model = (
        {"overlap": True, "ahead": 64, "late": False, "claims": False},
        {"overlap": True, "ahead": 0, "late": False, "claims": False},
        {"overlap": True, "ahead": 0, "late": True, "claims": False},
    )

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != 90:
            return Refusal(f"device is {gpu.name}: this variant is written for sm_90a")
        if case.dtype not in ("bf16", "fp16"):
            return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16")
        if case.weights != (self.weights or case.dtype):
            return Refusal(f"weights is {case.weights}: this variant multiplies {self.weights or case.dtype}")
        if case.scales is not None:
            return Refusal(f"scales is {case.scales}: this variant takes x in {case.dtype}")
        if case.m > MOST_ROWS:
            return Refusal(f"m is {case.m}: this variant takes up to {MOST_ROWS} rows")
        if case.k % 8:
            return Refusal(f"k is {case.k}: this variant reads 8 values at once")
        if case.epilogue == "quantise":
            return Refusal("epilogue is quantise: this variant writes the activations' type")
        if not _cuts(case, False):
            return Refusal(f"k is {case.k}: {case.m} rows of it do not fit into shared memory")
        return None

    def build(self, case: LinearCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(x [m, k], w, bias=None [n], residual=None [m, n], eps=1e-6) -> y [m, n]; w is what `pack` returned."""
        from kernels.gemm.skinny_call import SkinnyLinear

        check_served(self, case)
        overlap, late, claims = (bool(params.get(name)) for name in ("overlap", "late", "claims"))
        return SkinnyLinear(case, cut_of(case, params), overlap, 1024 * params.get("ahead", 0), late, claims)

    def space(self, case: LinearCase) -> list[dict[str, Any]]:
        """The best guess, the best with half or twice its warps, and the best with another number of splits."""
        found = _cuts(case, False)
        best = found[0]
        alike = [each for each in found if each.splits == best.splits and each.warps != best.warps][:1]
        other = [each for each in found if each.splits != best.splits and each.splits < 4][:1]
        return [_params(each) for each in (best, *alike, *other)]

    def for_model(self, case: LinearCase) -> Sequence[Mapping[str, Any]]:
        if not can_claim(_cuts(case, False)[0], case):
            return self.in_a_model
        first, *others = ({**each, "claims": True} for each in self.in_a_model)
        return (others[0], first, *others[1:], *self.in_a_model)

    def resized(self, case: LinearCase, params: dict[str, Any]) -> dict[str, Any]:
        return resized(_cuts(case, bool(params.get("zero"))), params, CUTS)

    def pack(self, case: LinearCase, params: dict[str, Any], weight: "torch.Tensor") -> "tuple[torch.Tensor, ...]":
        """(stream uint8,) or, for fp8 and nvfp4, (stream, scale of each packed row float32).

        Raises ValueError when weight is not [weight_rows, k].
        """
        from kernels.gemm.skinny_call import packed

        if tuple(weight.shape) != (case.weight_rows, case.k):
            raise ValueError(f"weight has shape {list(weight.shape)}, not [{case.weight_rows}, {case.k}]")
        return packed(cut_of(case, params), weight, case.dtype, case.gates)

    def packing(self, case: LinearCase, params: dict[str, Any]) -> str:
        return f"{cut_of(case, params).layout} gates={case.gates}"


@register
class Skinny(_Skinny):
    """Weights of the activations' own type."""

    name = "skinny"
    summary = "streamed product for up to 16 rows"


class _Lossy(_Skinny):
    lossy = True

    def rounded(self, case: LinearCase, params: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        from kernels.gemm.quantise import quantised, values

        return arguments | {"w": values(quantised(arguments["w"], self.weights, case.dtype, bool(params.get("zero"))))}


@register
class SkinnyFp8(_Lossy):
    """e4m3 weights with a scale per row."""

    name = "skinny_fp8"
    summary = "streamed product for up to 16 rows, fp8 weights"
    weights = "fp8"


@register
class SkinnyNvfp4(_Lossy):
    """e2m1 weights with an e4m3 scale per 16, in NVFP4's layout of numbers."""

    name = "skinny_nvfp4"
    summary = "streamed product for up to 16 rows, NVFP4 weights"
    weights = "nvfp4"


@register
class SkinnyInt4(_Lossy):
    """4-bit integers with a scale, and perhaps a zero, per group of 128."""

    name = "skinny_int4"
    summary = "streamed product for up to 16 rows, 4-bit integer weights"
    weights = "int4"


def _cuts(case: LinearCase, zero: bool) -> list[Cut]:
    rows = 2 * (-(-case.n // 8) * 8) if case.gates else case.n
    row_bytes = 4 * case.adds_bias + 2 * case.m * (case.epilogue == "residual")
    return cuts(weight_kind(case, zero), max(1, case.m), rows, case.k, row_bytes=row_bytes)


def _params(cut: Cut) -> dict[str, Any]:
    return {name: getattr(cut, name) for name in CUTS}


def cut_of(case: LinearCase, params: dict[str, Any]) -> Cut:
    """How params cut the case, the best guess where they do not say. Raises ValueError that names a wrong one."""
    unknown = set(params) - set(PARAMS)
    if unknown:
        raise ValueError(f"skinny takes {', '.join(PARAMS)}, not {', '.join(sorted(unknown))}")
    cut = matching(_cuts(case, bool(params.get("zero"))), params, CUTS)
    if cut is None:
        raise ValueError(f"{', '.join(CUTS)}: no way to cut {case.key} has {params}")
    return cut
