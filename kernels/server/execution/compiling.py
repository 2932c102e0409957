"""What a server compiles with NVRTC, found before anything asks for it, so that it is compiled together."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from torch import Tensor

from kernels.cuda.nvrtc import Build
from kernels.hardware import Gpu
from kernels.megakernel.host import device
from kernels.megakernel.program.layout import default_layout, serving_layout
from kernels.megakernel.program.ranks import part_of, programs
from kernels.megakernel.program.shape import BATCH_MOST, Unsupported, shape_of
from kernels.megakernel.proof.validate import Proof
from kernels.model.bound_variants import BoundVariants
from kernels.ops import Case
from kernels.plan import PlannedOp
from kernels.registry import Variant

PROVE = "import pickle, sys; pickle.load(sys.stdin.buffer).make()"
"""Makes the proof that comes on the standard input."""


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
        try:
            layout_of = serving_layout if served else default_layout
            layout = layout_of(shape, batch, capacity, weights, gpu.sms, tensor_parallel_size)
            build = device.build_of(device.defines(programs(shape, layout)[0], device.Tuning(trace=traced)))
        except ValueError:  # the runtime refuses it too
            continue
        yield build, Proof(shape, layout)


def compile_together(builds: Iterable[Build], proofs: Iterable[Proof] = ()) -> int:
    """Compiles those that are not there yet, as many at once as there are processors, while processes of their own make
    the proofs that are not there. Returns how many builds there are. Raises RuntimeError with the compiler's log.
    """
    wanted, unknown = list(dict.fromkeys(builds)), [proof for proof in proofs if not proof.is_known]
    with ThreadPoolExecutor((os.cpu_count() or 1) + len(unknown)) as pool:
        proving = [pool.submit(_prove, proof) for proof in unknown]
        list(pool.map(Build.binary, wanted))
        for each in proving:
            each.result()
    return len(wanted)


def _prove(proof: Proof) -> None:
    """Makes a proof in a fresh interpreter: the engine's process is a daemon, to which multiprocessing allows no
    children. Where that fails the megakernel makes it.
    """
    subprocess.run([sys.executable, "-c", PROVE], input=pickle.dumps(proof), stderr=subprocess.DEVNULL, check=False)
