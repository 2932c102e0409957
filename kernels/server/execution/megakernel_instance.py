"""Instances of the megakernel for a server, on a Hopper GPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.megakernel.host.device import Tuning
from kernels.megakernel.host.machine import DecodeRequest, SingleGpuMegakernel
from kernels.megakernel.program.layout import default_layout
from kernels.megakernel.program.shape import shape_of
from kernels.ops.sampling import Sampling
from kernels.server.execution.megakernel_backend import BATCHES


class MachineInstance:
    """The megakernel of a transformers model in bf16, for `batch` sequences of up to `capacity` tokens."""

    def __init__(self, model: Any, batch: int, capacity: int) -> None:
        """Packs the weights and compiles, which may take a minute. Raises ValueError as `MegakernelRunner`."""
        shape = shape_of(model.config.to_dict())
        sms = torch.cuda.get_device_properties(model.device).multi_processor_count
        layout = default_layout(shape, batch, capacity, "bf16", sms)
        self._machine = SingleGpuMegakernel(model, shape, layout, capacity, Tuning())
        self.batch, self.capacity = batch, capacity
        self.keys, self.values = self._machine.keys, self._machine.values
        self._cancel = torch.zeros(1, dtype=torch.int32, pin_memory=True).numpy()

    def launch(self, first: Tensor, positions: Sequence[int], sampling: Sequence[Sampling], tokens: Tensor) -> None:
        """See `kernels.server.execution.megakernel_backend.Instance`."""
        made: np.ndarray = tokens.numpy()
        self._machine.launch(DecodeRequest(first, positions, len(made), sampling=sampling), made, self._cancel)


def instance_bytes(model: Any, batch: int, capacity: int) -> int:
    """About the GPU memory of an instance: its weights, and its keys and values. All instances of a mixture share the
    experts, which are counted with the first.
    """
    shape = shape_of(model.config.to_dict())
    matrices = sum(parameter.numel() for parameter in model.model.layers.parameters()) + model.lm_head.weight.numel()
    shared = shape.experts_bytes if batch > BATCHES[0] else 0
    return 2 * (matrices + 2 * shape.layers * batch * capacity * shape.kv_heads * shape.head_dim) - shared
