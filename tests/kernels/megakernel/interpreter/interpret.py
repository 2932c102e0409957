"""The megakernel on a CPU: runs the uploaded arrays, SM by SM, in any order. Imports without torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.megakernel.program import Program
from kernels.megakernel.program.exchange import word_shapes
from kernels.megakernel.program.shape import positions_of
from kernels.ops.sampling import Samplings, expand_samplings
from tests.kernels.megakernel.interpreter.sm import StreamingMultiprocessor
from tests.kernels.megakernel.interpreter.words import Floats


class Deadlock(RuntimeError):
    """Every SM waits for words that no SM will write. The message names the first few SMs and their instructions."""


Pick = Callable[[list[int]], int]


@dataclass(frozen=True)
class DecodeStart:
    """What precedes the first step. keys and values float32 [layers, batch, capacity, kv_heads, head_dim] hold the
    context's, and are appended to. `first` int [batch] are the tokens at `position`, one for all or one for each.
    """

    keys: Floats
    values: Floats
    first: Any
    position: int | Sequence[int]


class SimulatedGpu:
    """Global memory, and a block for each SM. `arrays` are those of `uploads`, as numpy (bf16 as uint16)."""

    def __init__(
        self, program: Program, arrays: dict[str, Any], context: DecodeStart, count: int, split_keys: int = 64,
        forced: NDArray[np.int64] | None = None, sampling: Samplings = None,
    ) -> None:  # fmt: skip
        self.program, self.arrays, self.keys, self.values = program, arrays, context.keys, context.values
        self.count, self.split_keys, self.forced = count, split_keys, forced
        shape, layout = program.shape, program.layout
        self.positions = positions_of(context.position, layout.batch)
        self.sampling = expand_samplings(sampling, layout.batch)
        self.words = {name: np.zeros(size, dtype=np.uint64) for name, size in word_shapes(shape, layout).items()}
        self.tokens = np.full((count, layout.batch), -1, dtype=np.int64)
        self.logits = np.full((count, layout.batch, shape.vocab), np.nan, dtype=np.float32)
        self.stores, self.group = 0, [self]
        self.sms = [StreamingMultiprocessor(self, number, np.asarray(context.first)) for number in range(layout.sms)]

    def run(self, pick: Pick) -> NDArray[np.int64]:
        """Runs the SMs of this GPU alone to their end, as the function `run` does."""
        return run([self], pick)


def run(gpus: Sequence[SimulatedGpu], pick: Pick) -> NDArray[np.int64]:
    """Runs all SMs of all ranks to their end."""
    for gpu in gpus:
        gpu.group = list(gpus)
    sms = {sm.everywhere: sm for gpu in gpus for sm in gpu.sms}
    running = {number: sm.run() for number, sm in sms.items()}
    seen = dict.fromkeys(running, -1)  # the number of stores when the SM last found nothing new
    while running:
        done = sum(gpu.stores for gpu in gpus)
        able = [number for number in running if seen[number] != done]
        if not able:
            raise Deadlock("; ".join(f"{_name(sms[n])} waits in {sms[n].at}" for n in list(running)[:3]))
        number = pick(able)
        try:
            seen[number] = -1 if next(running[number]) else done
        except StopIteration:
            del running[number]
    return gpus[0].tokens


def _name(sm: StreamingMultiprocessor) -> str:
    gpu = sm.gpu.program
    return f"GPU {gpu.rank}, SM {sm.number}" if gpu.layout.tensor_parallel_size > 1 else f"SM {sm.number}"
