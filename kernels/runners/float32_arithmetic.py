"""A model's logits in float32 arithmetic, without a float32 copy of the model: each module's weights are cast while it
runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from kernels.runners.eager import EagerRunner


class Float32Runner(EagerRunner):
    """`logits` of token ids are those of the model with its weights cast to float32, and with float32 activations.

    The memory of one module's weights in float32 is taken beside the model: a layer's experts, or the LM head. Weights
    keep their memory, so CUDA graphs that read them stay valid.
    """

    @torch.no_grad()
    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        with in_float32(self.model):
            return super().logits(ids)


@contextmanager
def in_float32(model: torch.nn.Module) -> Iterator[None]:
    """Inside the block every module with weights of its own runs with these in float32."""
    handles = []
    for module in model.modules():
        tensors = [
            own_tensor
            for own_tensor in _own_tensors(module)
            if own_tensor.is_floating_point() and own_tensor.dtype != torch.float32
        ]
        if tensors:
            kept = [tensor.data for tensor in tensors]
            handles += [
                module.register_forward_pre_hook(lambda *_, own=tensors: _set(own, [tensor.float() for tensor in own])),
                module.register_forward_hook(lambda *_, own=tensors, kept=kept: _set(own, kept), always_call=True),
            ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _own_tensors(module: torch.nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(recurse=False), *module.buffers(recurse=False)]


def _set(tensors: list[torch.Tensor], values: list[Any]) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        tensor.data = value.data
