"""The megakernel as a whole-model variant. Imports without torch."""

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
