"""The megakernel as whole-model variants, in 16 bits and in lower precision. Imports without torch.

Lower precision is rounded to while weights are built (`rounding.py`): NVFP4 by GPTQ and fp8 to nearest, as SmolLM2's
then lose less (docs/kernels/formats.md), integers to nearest. A plan without the option `rounding` rounds to nearest.
"""

from typing import Any

from kernels.hardware import Gpu
from kernels.megakernel.program.ranks import TENSOR_PARALLEL_SIZES
from kernels.megakernel.program.shape import MAX_BATCH
from kernels.ops import ModelCase
from kernels.registry import Refusal, register, register_like
from kernels.runners.whole_model import TORCH_HELPERS, WholeModel


@register
class Megakernel(WholeModel):
    """One persistent kernel that makes every token after the first in one launch."""

    name = "megakernel"
    summary = "one persistent kernel for all decode steps, weights streamed once a token"
    peer = False
    encodes = False
    runner_name = "megakernel"
    page = "megakernel"
    kernels = ("decode", "all_reduce", "fetch")
    helpers = TORCH_HELPERS
    most_gpus = TENSOR_PARALLEL_SIZES[-1]
    build_seconds = 18.0

    def serves(self, case: ModelCase, gpu: Gpu) -> Refusal | None:
        if gpu.sm != 90:
            return Refusal(f"device is {gpu.name}: the megakernel is written for Hopper (compute capability 9.0)")
        if case.weights != self.weights:
            return Refusal(f"weights are {case.weights}: {self.name} takes {self.weights}")
        if case.batch > MAX_BATCH:
            return Refusal(f"batch is {case.batch}: the megakernel serves 1 to {MAX_BATCH}")
        if (case.gpus or 1) not in TENSOR_PARALLEL_SIZES:
            return Refusal(f"gpus is {case.gpus}: the megakernel runs on {', '.join(map(str, TENSOR_PARALLEL_SIZES))}")
        return None


ROUNDED: dict[str, tuple[str, dict[str, Any]]] = {
    "int8": ("int8 weights, a float16 scale per 32", {}),  # 17/32 of the bytes of a step
    "fp8": ("e4m3 weights, a power-of-two scale per row", {}),  # half
    "nvfp4": (
        "e2m1 weights, an e4m3 scale per 16, a power-of-two scale per matrix",  # 9/32
        {"build_seconds": 30.0, "options": {"weights": "nvfp4", "rounding": {"method": "gptq"}}},
    ),
    "mxfp4": ("experts in MXFP4, which loses nothing where they were stored so", {}),  # 17/64 of those of experts
    "int4": ("int4 weights, a float16 scale per 32, and an int8 LM head", {}),  # 9/32
    "int4_zero": (  # of groups of 64 or 128, as AWQ's
        "int4 weights, a float16 scale and a zero point per 64, and an int8 LM head",
        {"in_plans": False},
    ),
    "int4_minimum": (  # as GGUF's Q4_1
        "int4 weights, a float16 scale and minimum per 32, and an int8 LM head",
        {"in_plans": False},
    ),
}
"""What is rounded, and how the variant differs. Activations, keys, values and other weights stay bf16. A plan in int4
names `int4`: a model that was stored with zero points or minimums has those of its own."""
for weights, (what, facts) in ROUNDED.items():
    register_like(
        Megakernel, __name__, name=f"megakernel_{weights}", summary=f"the megakernel with {what}", lossy=True,
        **{"build_seconds": 20.0, "options": {"weights": weights}} | facts,
    )  # fmt: skip
