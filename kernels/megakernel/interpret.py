"""The megakernel on a CPU: runs the uploaded arrays, SM by SM, in any order. Imports without torch.

Python generators stand for the blocks of `decode.cu`. They compute in float32 with the kernel's roundings (inputs of
products, keys and values to bf16; words to 24 bits; sums in another order). This module holds the memory that they
share; the caller chooses the order in which they run; block.py and attend.py hold their code.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.megakernel.block import Sm
from kernels.megakernel.flagged_words import Floats, word_shapes
from kernels.megakernel.program import Program
from kernels.ops.sampling import Samplings, of_batch


class Deadlock(RuntimeError):
    """Every SM waits for words that no SM will write. The message names the first few SMs and their instructions."""


@dataclass(frozen=True)
class Context:
    """What precedes the first step. keys and values float32 [layers, batch, capacity, kv_heads, head_dim] hold the
    context's, and are appended to. `first` int [batch] are the tokens at `position`.
    """

    keys: Floats
    values: Floats
    first: Any
    position: int


class Gpu:
    """Global memory, and a block for each SM. `arrays` are those of `uploads`, as numpy (bf16 as uint16)."""

    def __init__(
        self, program: Program, arrays: dict[str, Any], context: Context, count: int, split_keys: int = 64,
        forced: NDArray[np.int64] | None = None, sampling: Samplings = None,
    ) -> None:  # fmt: skip
        self.program, self.arrays, self.keys, self.values = program, arrays, context.keys, context.values
        self.position, self.count, self.split_keys, self.forced = context.position, count, split_keys, forced
        shape, layout = program.shape, program.layout
        self.sampling = of_batch(sampling, layout.batch)
        self.words = {name: np.zeros(size, dtype=np.uint64) for name, size in word_shapes(shape, layout).items()}
        self.tokens = np.full((count, layout.batch), -1, dtype=np.int64)
        self.logits = np.full((count, layout.batch, shape.vocab), np.nan, dtype=np.float32)
        self.stores = 0
        self.sms = [Sm(self, number, np.asarray(context.first)) for number in range(layout.sms)]

    def run(self, pick: Callable[[list[int]], int]) -> NDArray[np.int64]:
        """Runs all SMs to their end. `pick` chooses the next SM among those that may run. Returns tokens [count,
        batch].

        Raises Deadlock.
        """
        running = {sm.number: sm.run() for sm in self.sms}
        seen = dict.fromkeys(running, -1)  # the number of stores when the SM last found nothing new
        while running:
            able = [number for number in running if seen[number] != self.stores]
            if not able:
                raise Deadlock("; ".join(f"SM {n} waits in {self.sms[n].at}" for n in list(running)[:3]))
            number, stores = pick(able), self.stores
            try:
                seen[number] = -1 if next(running[number]) else stores
            except StopIteration:
                del running[number]
        return self.tokens
