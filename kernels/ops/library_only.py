"""Features that the library computes and proves, but no runner uses yet. Imports without torch."""

from collections.abc import Callable

from kernels.ops.attention import AttentionCase
from kernels.ops.base import BaseCase
from kernels.ops.fft_conv import FftConvCase
from kernels.ops.grouped import GroupedCase
from kernels.ops.linear import LinearCase
from kernels.ops.rmsnorm import RmsNormCase
from kernels.ops.rope import RopeCase

LIBRARY_ONLY: dict[str, Callable[[BaseCase], bool]] = {
    "products of experts in fp8": lambda case: isinstance(case, GroupedCase) and case.scales is not None,
    "products of fp8 with fp8": lambda case: isinstance(case, LinearCase) and case.scales is not None,
    "fp8 outputs": lambda case: (
        (isinstance(case, LinearCase) and case.epilogue == "quantise")
        or (isinstance(case, RmsNormCase) and case.quantise is not None)
    ),
    "packed prompts": lambda case: isinstance(case, AttentionCase) and case.lengths is not None,
    "attention without causality": lambda case: isinstance(case, AttentionCase) and not case.causal,
    "rotations without a cache": lambda case: isinstance(case, RopeCase) and not case.append,
    "circular convolutions": lambda case: isinstance(case, FftConvCase) and case.circular,
    "filters that channels share": lambda case: isinstance(case, FftConvCase) and case.filters is not None,
    "inputs added behind convolutions": lambda case: isinstance(case, FftConvCase) and case.skip,
}
"""Features by the name that pages and `list` show. A test compares them with the cases that runners make."""


def library_only(case: BaseCase) -> list[str]:
    """The features of the case that no runner uses."""
    return [name for name, has in LIBRARY_ONLY.items() if has(case)]
