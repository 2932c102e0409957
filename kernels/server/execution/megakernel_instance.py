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
from kernels.model.rounding import RoundedWeights
from kernels.ops import MODEL_BYTES
from kernels.ops.sampling import Sampling


class MachineInstance:
    """The megakernel of a transformers model in bf16, for `batch` sequences of up to `capacity` tokens."""

    def __init__(
        self, model: Any, batch: int, capacity: int, weights: str = "bf16", rounded: RoundedWeights | None = None
    ) -> None:
        """Packs the weights, or the `rounded` codes of another precision, and compiles, which may take a minute. Raises
        ValueError as `MegakernelRunner`.
        """
        shape = shape_of(model.config.to_dict())
        sms = torch.cuda.get_device_properties(model.device).multi_processor_count
        layout = default_layout(shape, batch, capacity, weights, sms)
        self._machine = SingleGpuMegakernel(model, shape, layout, capacity, Tuning(), rounded)
        self.batch, self.capacity = batch, capacity
        self.keys, self.values = self._machine.keys, self._machine.values
        self._cancel = torch.zeros(1, dtype=torch.int32, pin_memory=True).numpy()

    def launch(self, first: Tensor, positions: Sequence[int], sampling: Sequence[Sampling], tokens: Tensor) -> None:
        """See `kernels.server.execution.megakernel_backend.Instance`."""
        made: np.ndarray = tokens.numpy()
        self._machine.launch(DecodeRequest(first, positions, len(made), sampling=sampling), made, self._cancel)


def instance_bytes(model: Any, batch: int, capacity: int, weights: str = "bf16") -> int:
    """About the GPU memory of an instance: its weights, and its keys and values."""
    shape = shape_of(model.config.to_dict())
    matrices = sum(parameter.numel() for parameter in model.model.layers.parameters()) + model.lm_head.weight.numel()
    cached = 2 * shape.layers * batch * capacity * shape.kv_heads * shape.head_dim
    return int(MODEL_BYTES[weights] * matrices) + 2 * cached
