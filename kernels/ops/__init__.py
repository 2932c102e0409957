"""The operations a model is made of: their shapes, FLOPs and least bytes. Imports without torch.

A *case* is one operation at one shape. `flops` counts a multiply-add as two; `least_bytes` counts every input read
once and every output written once. Formulas: `docs/measurement.md`.
"""

from typing import Annotated

from pydantic import Field, TypeAdapter

from kernels.ops.attention import AttentionCase, StepAttentionCase
from kernels.ops.base import BYTES, E2M1, DType, Epilogue, Sampling, Scales, Weights
from kernels.ops.model import ModelCase
from kernels.ops.products import GroupedCase, LinearCase, LmHeadCase
from kernels.ops.rowwise import GatedCase, RmsNormCase, RopeCase

__all__ = [
    "BYTES", "E2M1", "PARTS", "AttentionCase", "Case", "DType", "Epilogue", "GatedCase", "GroupedCase", "LinearCase",
    "LmHeadCase", "ModelCase", "RmsNormCase", "RopeCase", "Sampling", "Scales", "StepAttentionCase", "Weights",
    "case_from",
]  # fmt: skip

Case = Annotated[
    LinearCase
    | GroupedCase
    | AttentionCase
    | StepAttentionCase
    | RmsNormCase
    | RopeCase
    | GatedCase
    | LmHeadCase
    | ModelCase,
    Field(discriminator="op"),
]
PARTS = {
    "model": "the whole model",
    "attention": "attention",
    "step_attention": "attention",
    "linear": "products",
    "grouped": "products",
    "lm_head": "the LM head",
    "rmsnorm": "norms",
    "rope": "rotations",
    "gated": "gates",
}
"""What the work of an op is called, in the order in which it is told."""

case_from: TypeAdapter[Case] = TypeAdapter(Case)
"""`case_from.validate_python({...})` gives the case a document names."""
