"""An instance of the megakernel that the interpreter runs."""

from collections.abc import Sequence

import torch
from torch import Tensor

from kernels.ops.sampling import Sampling
from tests.kernels.megakernel.interpreter.interpret import DecodeStart, SimulatedGpu, run
from tests.kernels.megakernel.orders import round_robin
from tests.kernels.megakernel.tiny_models import arrays_of, programs_of


class InterpretedInstance:
    """The tiny model `name` on `ranks` GPUs of 4 SMs, with splits of 8 keys."""

    def __init__(self, name: str, batch: int, capacity: int, ranks: int = 1) -> None:
        self.batch, self.capacity, self.launches = batch, capacity, 0
        layout = {"sms": 4, "splits": 3, "batch": batch, "sliced": batch > 1}
        self._programs = programs_of(name, tensor_parallel_size=ranks, **layout)
        self._arrays = [arrays_of(name, program.layout, rank) for rank, program in enumerate(self._programs)]
        shape = self._programs[0].shape
        size = shape.layers, batch, capacity, shape.kv_heads, shape.head_dim
        self.caches = [(torch.full(size, float("nan")), torch.full(size, float("nan"))) for _ in range(ranks)]

    def launch(self, first: Tensor, positions: Sequence[int], sampling: Sequence[Sampling], tokens: Tensor) -> None:
        gpus = []
        for program, arrays, (keys, values) in zip(self._programs, self._arrays, self.caches, strict=True):
            context = DecodeStart(keys.numpy(), values.numpy(), first.numpy(), positions)
            gpus.append(SimulatedGpu(program, arrays, context, len(tokens), split_keys=8, sampling=sampling))
        tokens.copy_(torch.from_numpy(run(gpus, round_robin())))
        self.launches += 1
