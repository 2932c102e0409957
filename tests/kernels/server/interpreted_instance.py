"""An instance of the megakernel that the interpreter runs."""

from collections.abc import Sequence

import torch
from torch import Tensor

from kernels.ops.sampling import Sampling
from tests.kernels.megakernel.interpreter.interpret import DecodeStart, SimulatedGpu
from tests.kernels.megakernel.orders import round_robin
from tests.kernels.megakernel.tiny_models import arrays_of, program_of


class InterpretedInstance:
    """The tiny model `name` on 4 SMs, with splits of 8 keys."""

    def __init__(self, name: str, batch: int, capacity: int) -> None:
        self.batch, self.capacity, self.launches = batch, capacity, 0
        self._program = program_of(name, sms=4, splits=3, batch=batch, sliced=batch > 1)
        self._arrays, shape = arrays_of(name, self._program.layout), self._program.shape
        size = shape.layers, batch, capacity, shape.kv_heads, shape.head_dim
        self.keys, self.values = (torch.full(size, float("nan")) for _ in range(2))

    def launch(self, first: Tensor, positions: Sequence[int], sampling: Sequence[Sampling], tokens: Tensor) -> None:
        context = DecodeStart(self.keys.numpy(), self.values.numpy(), first.numpy(), positions)
        gpu = SimulatedGpu(self._program, self._arrays, context, len(tokens), split_keys=8, sampling=sampling)
        tokens.copy_(torch.from_numpy(gpu.run(round_robin())))
        self.launches += 1
