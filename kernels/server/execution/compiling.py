"""What a server compiles, found before anything asks for it, so that it is compiled together."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from torch import Tensor

from kernels.cuda.nvrtc import Build
from kernels.cuda.triton_build import TritonBuild
from kernels.hardware import Gpu
from kernels.megakernel.host import device
from kernels.megakernel.program.layout import default_layout, serving_layout
from kernels.megakernel.program.ranks import part_of, programs, served_most
from kernels.megakernel.program.shape import BATCH_MOST, Unsupported, shape_of
from kernels.megakernel.proof.validate import Proof
from kernels.model.bound_variants import BoundVariants
from kernels.ops import Case
from kernels.plan import PlannedOp
from kernels.registry import Variant

MAKE = "import pickle, sys; [each.make() for each in pickle.load(sys.stdin.buffer)]"
"""Makes the proofs or Triton's kernels that come on the standard input."""


class NotedVariants(BoundVariants):
    """Variants that are noted with what they compile, and never built. Their weights are not packed."""

    def __init__(self, ops: Sequence[PlannedOp], gpu: Gpu) -> None:
        super().__init__(ops, gpu)
        self.builds: list[Build] = []

    def built(self, variant: Variant, case: Case, params: dict[str, Any]) -> Any:
        self.builds += variant.cuda_builds(case, params, self.gpu)

    def pack(self, bound: Any, weight: Tensor, norm: Tensor | None = None) -> Any:
        return weight


def megakernels(
    config: dict[str, Any],
    gpu: Gpu,
    capacity: int,
    batches: Iterable[int],
    weights: str = "bf16",
    tensor_parallel_size: int = 1,
    traced: bool = False,
    served: bool = False,
) -> Iterator[tuple[Build, Proof]]:
    """The megakernel for each of the batches and the proof of its programs, on GPUs that hold all pairs of SMs at once,
    as an H200 does, a rank on each; nothing where it does not serve the model. Where it is to be `traced`, it is the
    build that notes times; where a server is to have it, with the server's layout.
    """
    for batch in batches:
        if gpu.sm != 90 or batch > BATCH_MOST:
            continue
        try:
            shape = part_of(shape_of(config), tensor_parallel_size, weights)
        except Unsupported:
            return
        if served and batch > served_most(shape, tensor_parallel_size):
            continue
        try:
            layout_of = serving_layout if served else default_layout
            layout = layout_of(shape, batch, capacity, weights, gpu.sms, tensor_parallel_size)
            build = device.build_of(device.defines(programs(shape, layout)[0], device.Tuning(trace=traced)))
        except ValueError:  # the runtime refuses it too
            continue
        yield build, Proof(shape, layout)


def compile_together(wanted: Iterable[Build | TritonBuild | Proof]) -> int:
    """Makes those that are not there yet, as many at once as there are processors: CUDA C++ in threads from when it
    comes, proofs and Triton's kernels in processes of their own. Returns how many there are, each counted once. Raises
    RuntimeError with NVRTC's log.
    """
    processors, known, of_triton = os.cpu_count() or 1, set[Build | TritonBuild | Proof](), list[TritonBuild]()
    with ThreadPoolExecutor(processors) as threads, ThreadPoolExecutor(processors) as processes:
        compiling = []
        for each in wanted:
            if each in known:
                continue
            known.add(each)
            if isinstance(each, Build):
                compiling.append(threads.submit(each.binary))
            elif not each.is_made:
                if isinstance(each, TritonBuild):
                    of_triton.append(each)
                else:
                    processes.submit(_make, [each])
        for number in range(processors):
            if share := of_triton[number::processors]:
                processes.submit(_make, share)
        for build in compiling:
            build.result()
    return len(known)


def _make(several: Sequence[TritonBuild | Proof]) -> None:
    """Makes some in a fresh interpreter: the engine's process is a daemon, to which multiprocessing allows no children.
    What fails there is made when it is needed.
    """
    subprocess.run([sys.executable, "-c", MAKE], input=pickle.dumps(several), stderr=subprocess.DEVNULL, check=False)
