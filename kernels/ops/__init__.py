"""The operations of a model, one module each. Imports without torch.

A *case* is one operation at one shape. Its class holds everything that generic code knows of the op: shapes, roofline
traffic, reference, test inputs, tolerance, label. `flops` counts a multiply-add as two; `least_bytes` counts every
input read once and every output written once. Formulas: `docs/method.md`.
"""

from typing import Annotated, get_args

from pydantic import Field, TypeAdapter

from kernels.ops.attention import AttentionCase
from kernels.ops.base import BYTES, MODEL_BYTES, BaseCase, DType, Epilogue, SamplingKind, Weights
from kernels.ops.fft_conv import FftConvCase
from kernels.ops.gated import GatedCase
from kernels.ops.grouped import GroupedCase
from kernels.ops.linear import LinearCase
from kernels.ops.lm_head import LmHeadCase
from kernels.ops.model import ModelCase
from kernels.ops.rmsnorm import RmsNormCase
from kernels.ops.rope import RopeCase
from kernels.ops.step_attention import StepAttentionCase
from kernels.quant.formats import Scales

__all__ = [
    "BYTES", "MODEL_BYTES", "OPS", "PARTS", "TORCH_VARIANTS", "AttentionCase", "BaseCase", "Case", "DType", "Epilogue",
    "FftConvCase", "GatedCase", "GroupedCase", "LinearCase", "LmHeadCase", "ModelCase", "RmsNormCase", "RopeCase",
    "SamplingKind", "Scales", "StepAttentionCase", "Weights", "case_from",
]  # fmt: skip

AnyCase = (
    ModelCase
    | AttentionCase
    | StepAttentionCase
    | LinearCase
    | GroupedCase
    | LmHeadCase
    | RmsNormCase
    | RopeCase
    | GatedCase
    | FftConvCase
)
Case = Annotated[AnyCase, Field(discriminator="op")]

OPS: dict[str, type[BaseCase]] = {case.model_fields["op"].default: case for case in get_args(AnyCase)}
"""The case classes by op name, in the order in which pages show them."""

PARTS = {name: op.part for name, op in OPS.items()}
"""The names of the ops' work in pages and sentences."""

TORCH_VARIANTS = tuple(name for op in OPS.values() for name in op.torch_variants)
"""Variants that torch runs by itself. One is kept unless another is faster by more than the noise."""

case_from: TypeAdapter[Case] = TypeAdapter(Case)
"""`case_from.validate_python({...})` gives the case a document names."""
