"""What every case has: names of precisions, bytes of an element, the key. Imports without torch."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

DType = Literal["fp32", "bf16", "fp16"]
Weights = Literal["fp32", "bf16", "fp16", "int8", "fp8", "nvfp4", "int4"]
Sampling = Literal["argmax", "top_k_p"]
Epilogue = Literal[
    "none",
    "bias",
    "residual",
    "swiglu",
    "rmsnorm_scale",
    "rmsnorm_scale_bias",
    "rmsnorm_scale_swiglu",
    "quantise",
]

Scales = Literal["tensor", "row", "block"]

BYTES: dict[str, float] = {
    "fp32": 4,
    "bf16": 2,
    "fp16": 2,
    "int8": 1,
    "fp8": 1,
    "nvfp4": 0.5 + 1 / 16,  # e2m1 with an e4m3 scale per 16
    "int4": 0.5 + 2 / 128,  # with a 16-bit scale per group of 128
}
"""Bytes per element, scales included."""

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The magnitudes of a 4-bit number by its lower three bits; the fourth is the sign."""


class BaseCase(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def key(self) -> str:
        """The case as one short string, equal for equal cases."""
        return " ".join(f"{name}={value}" for name, value in self.model_dump().items() if value is not None)
