"""Instances of the megakernel for a server, on one Hopper GPU or on several."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.megakernel.host.device import Tuning
from kernels.megakernel.host.machine import DecodeRequest, SingleGpuMegakernel
from kernels.megakernel.host.rank_models import RankModel
from kernels.megakernel.host.ranked_machine import RankedMachine
from kernels.megakernel.program.layout import Layout, serving_layout
from kernels.megakernel.program.ranks import shard_of
from kernels.megakernel.program.shape import shape_of
from kernels.model.expert_tiles import has_tiles
from kernels.ops.sampling import Sampling
from kernels.server.execution.served_plans import MEGAKERNEL_BATCHES


class MachineInstance:
    """The megakernel of a bf16 model, or of a sharded one, for `batch` sequences of up to `capacity` tokens."""

    def __init__(
        self,
        model: Any,
        ranks: Sequence[RankModel],
        batch: int,
        capacity: int,
        weights: str = "bf16",
        beside: Sequence["MachineInstance"] = (),
    ) -> None:
        """Packs the weights of the model's `ranks`, or their codes in another precision, unless an instance `beside` it
        has them in the same order, and compiles, which may take a minute. Raises ValueError as `MegakernelRunner`.
        """
        gpus = [rank.model.device for rank in ranks]
        shape = shard_of(shape_of(model.config.to_dict()), len(gpus), weights)
        sms = torch.cuda.get_device_properties(gpus[0]).multi_processor_count // max(Counter(gpus).values())
        layout = serving_layout(shape, batch, capacity, weights, sms, len(gpus))
        self._machine: SingleGpuMegakernel | RankedMachine
        others = [rank for instance in beside for rank in instance._machine.ranks]
        if len(gpus) == 1:
            self._machine = SingleGpuMegakernel(model, shape, layout, capacity, Tuning(), ranks[0].rounded, others)
        else:
            self._machine = RankedMachine(ranks, shape, layout, capacity, Tuning(), others)
        self.batch, self.capacity = batch, capacity
        self.caches: Sequence[tuple[Tensor, Tensor]] = [(rank.keys, rank.values) for rank in self._machine.ranks]
        self._cancel = torch.zeros(1, dtype=torch.int32, pin_memory=True).numpy()

    def launch(self, first: Tensor, positions: Sequence[int], sampling: Sequence[Sampling], tokens: Tensor) -> None:
        """See `kernels.server.execution.megakernel_backend.Instance`."""
        ids: np.ndarray = tokens.numpy()
        self._machine.launch(DecodeRequest(first, positions, len(ids), sampling=sampling), ids, self._cancel)


def instance_bytes(model: Any, batch: int, capacity: int, weights: str = "bf16") -> int:
    """About the GPU memory of an instance: its weights, and its keys and values. Weights are counted with the first two
    batches, since those for more sequences read the second's; only a mixture has them again without its experts. All
    instances of a mixture read the model's own experts where they are tiles, else a copy, or one in MXFP4, which is
    counted with the first. Of a sharded model, on the GPU of the shard `model`.
    """
    shape = shape_of(model.config.to_dict())
    layers, head = sum(parameter.numel() for parameter in model.model.layers.parameters()), model.lm_head.weight.numel()
    cached = 2 * shape.layers * batch * capacity * shape.kv_heads * shape.head_dim
    layout, experts = Layout(weights=weights), shape.experts_bytes // 2
    own = layout.form.weight_bytes * (layers - experts) + layout.head_form.weight_bytes * head
    shared = batch > MEGAKERNEL_BATCHES[0] or (weights == "bf16" and has_tiles(model))
    own += 0 if shared else layout.expert_form.weight_bytes * experts
    return int(own if batch in MEGAKERNEL_BATCHES[:2] or shape.experts else 0) + 2 * cached
