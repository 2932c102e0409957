"""Formats of numbers of eight and four bits. Imports without torch."""

from typing import Literal

Scales = Literal["tensor", "row", "block", "block32", "block16"]
"""The values that share a scale: the tensor, a row, or a `block` of 128 values of x's row, 128 × 128 of w. `block32` is
32 of a row (MXFP8: powers of two), `block16` 16 (NVFP4: e4m3, and one float32).
"""

FLOAT_SCALES: tuple[Scales | None, ...] = ("tensor", "row", "block")
"""Scales in float32, of e4m3 values."""

E4M3_MAX = 448.0
"""The largest e4m3 number."""

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The magnitudes of a 4-bit number by its lower three bits; the fourth is the sign."""

INT4 = ("int4", "int4_zero", "int4_minimum")
"""Forms of int4: a scale for 32 columns; a scale and a zero point for 64 or 128; a scale and a minimum for 32."""

FP8_LAYERS = "fp8_layers"
"""The megakernel's form of fp8 for a checkpoint in it: e4m3 with a scale for each row, the LM head in 16 bits."""

EXPERTS = ("int8", "mxfp4")
"""The lower precisions of a mixture's experts. In MXFP4 nothing but experts is."""


def head_precision(weights: str) -> str:
    """The precision of the LM head of a model in `weights`, "" for 16 bits: int8 for int4, which loses more there than
    in all other matrices. Those who quantise models leave the head in more bits too.
    """
    return "int8" if weights in INT4 else "" if weights == FP8_LAYERS else dense_precision(weights)


def served_head_precision(weights: str) -> str:
    """The same of a server, whose fp8 is a checkpoint's own: such a model's head is in 16 bits."""
    return head_precision(megakernel_precision(weights))


def megakernel_precision(weights: str) -> str:
    """The megakernel's precision for a model in `weights` whose fp8 is its own; others as they are."""
    return FP8_LAYERS if weights == "fp8" else weights


def dense_precision(weights: str) -> str:
    """The lower precision of matrices that every token multiplies, of a model in `weights`; "" for the model's own."""
    return "" if weights == "mxfp4" else weights
