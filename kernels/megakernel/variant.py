"""The megakernel as whole-model variants, in 16 bits and in lower precision. Imports without torch.

Lower precision is rounded to while weights are built (`rounding.py`): NVFP4 by GPTQ and fp8 to nearest, as SmolLM2's
then lose less (docs/kernels/formats.md), integers to nearest. A plan without the option `rounding` rounds to nearest.
"""

from kernels.hardware import Gpu
from kernels.megakernel.program.ranks import TENSOR_PARALLEL_SIZES
from kernels.megakernel.program.shape import BATCH_MOST
from kernels.ops import ModelCase
from kernels.registry import Refusal, register
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
        if case.batch > BATCH_MOST:
            return Refusal(f"batch is {case.batch}: the megakernel serves 1 to {BATCH_MOST}")
        if (case.gpus or 1) not in TENSOR_PARALLEL_SIZES:
            return Refusal(f"gpus is {case.gpus}: the megakernel runs on {', '.join(map(str, TENSOR_PARALLEL_SIZES))}")
        return None


class RoundedMegakernel(Megakernel):
    """A megakernel whose weights are rounded while it is built."""

    lossy = True
    build_seconds = 20.0


@register
class MegakernelInt8(RoundedMegakernel):
    """17/32 of the bytes of a step: int8 with a float16 scale per 32 weights; the rest stays bf16."""

    name = "megakernel_int8"
    summary = "the megakernel with int8 weights, a float16 scale per 32"
    options = {"weights": "int8"}


@register
class MegakernelFp8(RoundedMegakernel):
    """Half the bytes of a step: e4m3 with a power of two per row; activations, keys and values stay bf16."""

    name = "megakernel_fp8"
    summary = "the megakernel with e4m3 weights, a power-of-two scale per row"
    options = {"weights": "fp8"}


@register
class MegakernelNvfp4(RoundedMegakernel):
    """9/32 of the bytes: e2m1 with an e4m3 scale per 16 weights; activations, keys and values stay bf16."""

    name = "megakernel_nvfp4"
    summary = "the megakernel with e2m1 weights, an e4m3 scale per 16, a power-of-two scale per matrix"
    build_seconds = 30.0
    options = {"weights": "nvfp4", "rounding": {"method": "gptq"}}


@register
class MegakernelMxfp4(RoundedMegakernel):
    """17/64 of the bytes of experts: e2m1 with a power of two per 32 weights, as gpt-oss's are stored; others bf16."""

    name = "megakernel_mxfp4"
    summary = "the megakernel with experts in MXFP4, which loses nothing where they were stored so"
    options = {"weights": "mxfp4"}


@register
class MegakernelInt4(RoundedMegakernel):
    """9/32 of the bytes: four-bit integers with a float16 scale per 32 weights; the LM head in int8, the rest in bf16.

    A model that was stored in four bits with zero points or minimums has those of its own, as the variants below.
    """

    name = "megakernel_int4"
    summary = "the megakernel with int4 weights, a float16 scale per 32, and an int8 LM head"
    options = {"weights": "int4"}


@register
class MegakernelInt4Zero(RoundedMegakernel):
    """The same with a zero point beside each scale, both per 64 weights: of groups of 64 or 128, as AWQ's."""

    name = "megakernel_int4_zero"
    summary = "the megakernel with int4 weights, a float16 scale and a zero point per 64, and an int8 LM head"
    options = {"weights": "int4_zero"}
    in_plans = False


@register
class MegakernelInt4Minimum(RoundedMegakernel):
    """The same with a minimum beside each scale per 32 weights, as GGUF's Q4_1."""

    name = "megakernel_int4_minimum"
    summary = "the megakernel with int4 weights, a float16 scale and minimum per 32, and an int8 LM head"
    options = {"weights": "int4_minimum"}
    in_plans = False
