"""The base of every op: its case, and the hooks that generic code calls. Imports without torch."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from kernels.ops.oracle import Oracle
from kernels.quant.formats import INT4

if TYPE_CHECKING:
    import torch

    from kernels.proof.inputs import Maker

DType = Literal["fp32", "bf16", "fp16"]
Weights = Literal["fp32", "bf16", "fp16", "int8", "fp8", "nvfp4", "mxfp4", "int4", "int4_zero", "int4_minimum"]
SamplingKind = Literal["argmax", "top_k_p"]
Epilogue = Literal[
    "none", "bias", "residual", "swiglu", "rmsnorm_scale", "rmsnorm_scale_bias", "rmsnorm_scale_swiglu", "quantise"
]

BYTES: dict[str, float] = {
    "fp32": 4,
    "bf16": 2,
    "fp16": 2,
    "int8": 1,
    "fp8": 1,
    "nvfp4": 0.5 + 1 / 16,  # e2m1 with an e4m3 scale per 16
    "mxfp4": 0.5 + 1 / 32,  # e2m1 with an exponent per 32
    "int4": 0.5 + 2 / 32,  # with a float16 scale per 32
    "int4_zero": 0.5 + 4 / 64,  # with a float16 scale and a zero point per 64
    "int4_minimum": 0.5 + 4 / 32,  # with a float16 scale and minimum per 32
}
"""Bytes per element, scales included."""

MODEL_BYTES = BYTES | {"int8": 1 + 2 / 32}
"""The same of a whole model's weights: int8 has a float16 scale per 32 (`megakernel/program/weights.py`)."""

MATRIX_RATE: dict[str, float] = {"fp32": 0.5, "bf16": 1, "fp16": 1, "int8": 2, "fp8": 2, "nvfp4": 4} | dict.fromkeys(
    ("mxfp4", *INT4), 2.0
)
"""Matrix FLOP per clock of a precision, relative to bf16 (fp32: as TF32)."""

EPSILON = 1e-6
"""The epsilon of RMSNorm where the call does not give one."""

BLOCK_ELEMENTS = 1 << 26
"""The largest block of scores or logits that a reference holds at once, in elements."""

Arguments = dict[str, Any]
"""The arguments of one call by name."""
Outputs = tuple["torch.Tensor", ...]


class BaseCase(BaseModel):
    """One op at one shape. A subclass in its own module holds everything that generic code knows of an op."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    part: ClassVar[str]
    """The name of the op's work on pages and in sentences."""
    torch_variants: ClassVar[tuple[str, ...]] = ()
    """The variants that torch runs by itself, in order: the first that serves a case is the default."""
    copies: ClassVar[bool] = False
    """Whether the op writes about as many bytes as it reads; its roofline is then the copy bandwidth."""
    packs_weight: ClassVar[bool] = False
    """Whether the call's argument `w` is what `Variant.pack` returned."""
    constant: ClassVar[tuple[str, ...]] = ()
    """Arguments that keep their values between timed calls: weights, and what decides how long a call takes."""

    @property
    def key(self) -> str:
        """The case as one short string, equal for equal cases."""
        return " ".join(f"{name}={value}" for name, value in self.model_dump().items() if value is not None)

    @property
    def shape_label(self) -> str:
        """The case in a few words, for sentences about a plan."""
        return str(getattr(self, "op", ""))

    # Roofline

    @property
    def flops(self) -> float:
        """FLOPs as papers count them; a multiply-add is two."""
        raise NotImplementedError

    @property
    def least_bytes(self) -> float:
        """Bytes when every input is read once and every output is written once."""
        raise NotImplementedError

    @property
    def unavoidable_flops(self) -> float:
        """FLOPs that every implementation needs."""
        return self.flops

    @property
    def unavoidable_bytes(self) -> float:
        """Bytes that every implementation moves."""
        return self.least_bytes

    @property
    def matrix_precision(self) -> str:
        """The precision whose matrix rate bounds the case, a key of MATRIX_RATE."""
        return str(getattr(self, "dtype", "bf16"))

    # Proof

    def inputs(self, make: "Maker", scale: float) -> Arguments:
        """Random arguments of one call; `scale` is the standard deviation of the activations."""
        raise ValueError(f"no test inputs for {self.key}")

    def reference(self, arguments: Arguments) -> Outputs:
        """The outputs in plain torch, calculated in the dtypes of the arguments. Does not change the arguments."""
        raise ValueError(f"no reference for {self.key}")

    def native(self, arguments: Arguments) -> Outputs:
        """torch's own answer in the arguments' precision, against which the gate measures errors."""
        return self.reference(arguments)

    @property
    def longest_sum(self) -> int:
        """Terms of the longest sum in the op, over which rounding errors accumulate."""
        return 1

    def oracle(self, truth: Outputs, own: Outputs, rounding: float, used: Arguments, drawn: Arguments) -> Oracle:
        """The oracle of a call with the arguments `used`; `drawn` are the same before a variant rounded any."""
        return Oracle(truth, own, rounding)

    def continuous(self, arguments: Arguments) -> "torch.Tensor":
        """The first output in float64, before any choice of a token. Rounding of the inputs is measured on it."""
        from kernels.ops.reference import compute

        return compute(self, arguments)[0]

    def passed(self, arguments: Arguments) -> Arguments:
        """The arguments as a call takes them."""
        return arguments

    def comparable(self, outputs: Outputs) -> Outputs:
        """A variant's outputs in the form of the reference's. Raises Failed for outputs of another kind."""
        return outputs

    def written_slots(self, arguments: Arguments) -> "tuple[torch.Tensor, torch.Tensor] | None":
        """The indices of `k_cache` and `v_cache` that a call writes; None where it writes no argument."""
        return None
