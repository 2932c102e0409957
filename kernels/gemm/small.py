"""Products with 9 to 256 rows of x, as prompts need them: k split over a cluster, joined in a fixed order."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.check_args import check_served
from kernels.gemm.cutting import matching, resized
from kernels.gemm.small_cut import SmallCut, cuts
from kernels.hardware import Gpu
from kernels.ops import LinearCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch

LEAST_ROWS, MOST_ROWS = 9, 256
CUT_PARAMS = ("groups", "splits", "tokens", "wide")
TRIED = 4
"""Cuts that are worth timing."""


@register
class SmallGemm(Variant):
    """The transposed product on the warpgroups' matrix units, weights as they are.

    Params: `groups` (of 64 rows of w a block), `splits` (blocks that divide k), `tokens` (tiles of rows of x), `wide`
    (so many rows of w a block instead, and `groups` of 64 rows of x; 0: not so), `overlap` (a dependent launch: w is
    read before the kernel ahead has ended, so it must have been written, and waited for, long before).
    """

    name = "small_gemm"
    op = "linear"
    page = "small-gemm"
    summary = "split product for 9 to 256 rows"
    in_a_model = ({"overlap": True},)

    def serves(self, case: LinearCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != 90:
            return Refusal(f"device is {gpu.name}: this variant is written for sm_90a")
        if case.dtype not in ("bf16", "fp16"):
            return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16")
        if case.weights != case.dtype or case.scales is not None:
            return Refusal(
                f"weights is {case.weights} and dtype {case.dtype}: this variant multiplies equal types only"
            )
        if not LEAST_ROWS <= case.m <= MOST_ROWS:
            return Refusal(f"m is {case.m}: this variant takes {LEAST_ROWS} to {MOST_ROWS} rows")
        if case.k % 8:
            return Refusal(f"k is {case.k}: the copy engine needs rows of a multiple of 16 bytes")
        if case.n % 8:
            return Refusal(f"n is {case.n}: rows of y must begin at multiples of 16 bytes")
        if case.epilogue == "quantise":
            return Refusal("epilogue is quantise: this variant writes the activations' type")
        return None

    def build(self, case: LinearCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(x [m, k], w [weight_rows, k], bias=None [n], residual=None [m, n], eps=1e-6) -> y [m, n]."""
        from kernels.gemm.small_call import SmallLinear

        check_served(self, case)
        return SmallLinear(case, cut_of(case, params), bool(params.get("overlap")))

    def space(self, case: LinearCase) -> list[dict[str, Any]]:
        """The best guesses."""
        return [{name: getattr(cut, name) for name in CUT_PARAMS} for cut in cuts(case)[:TRIED]]

    def resized(self, case: LinearCase, params: dict[str, Any]) -> dict[str, Any]:
        return resized(cuts(case), params, CUT_PARAMS)


def cut_of(case: LinearCase, params: dict[str, Any]) -> SmallCut:
    """How params cut the case, the best guess where they do not say. Raises ValueError that names a wrong one."""
    unknown = set(params) - {*CUT_PARAMS, "overlap"}
    if unknown:
        raise ValueError(f"small_gemm takes {', '.join(CUT_PARAMS)} and overlap, not {', '.join(sorted(unknown))}")
    cut = matching(cuts(case), params, CUT_PARAMS)
    if cut is None:
        raise ValueError(f"{', '.join(CUT_PARAMS)}: no way to cut {case.key} has {params}")
    return cut
