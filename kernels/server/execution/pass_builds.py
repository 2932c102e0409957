"""What a server's passes compile, found without a GPU: each pass runs on torch's meta device, where kernels in CUDA C++
are noted instead of built, and those in Triton instead of launched.
"""

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

import torch
from torch import Tensor

from kernels.cuda.nvrtc import Build
from kernels.cuda.triton_build import TritonBuild, compiling_for
from kernels.model.decoder import Decoder
from kernels.ops import Case
from kernels.registry import Variant
from kernels.server.execution.backend import KernelsBackend
from kernels.server.execution.compiling import NotedVariants
from kernels.server.execution.inputs import size, views
from kernels.server.execution.packed import PackedPass, PagedState

META = torch.device("meta")
OUTPUTS: Mapping[str, Callable[[Any], Callable[..., Tensor]]] = {
    "linear": lambda case: lambda x, *_, **more: x.new_empty(case.m, case.n),
    "grouped": lambda case: lambda x, *_, **more: x.new_empty(len(x), case.n),
    "lm_head": lambda case: lambda x, *_, **more: x.new_empty(case.m, dtype=torch.int64),
    "step_attention": lambda case: lambda qkv, *_, **more: qkv.new_empty(len(qkv), case.heads * case.head_dim),
}
"""By op what stands for a function in CUDA C++: it gives an output of the right shape."""


class RunnableVariants(NotedVariants):
    """Noted variants whose functions run on torch's meta device."""

    def built(self, variant: Variant, case: Case, params: dict[str, Any]) -> Any:
        known = len(self.builds)
        super().built(variant, case, params)
        return variant.build(case, params) if len(self.builds) == known else OUTPUTS[case.op](case)


@torch.no_grad()
def pass_builds(backend: KernelsBackend) -> list[Build | TritonBuild]:
    """What the backend's passes compile with NVRTC and with Triton, each once."""
    model = _outline(backend.model)
    state = _paged(backend.state, len(model.layers))
    builds: list[Build | TritonBuild] = []
    pages = state.positions // state.page_size
    with compiling_for(backend.gpu.sm, backend.gpu.sms) as launched:
        for shape, ops, head in backend.passes():
            noted = RunnableVariants(ops, backend.gpu)
            memory = torch.empty(size(shape, pages), dtype=torch.uint8, device=META)
            rank = 0 if len(backend.states) > 1 else None
            PackedPass(model, noted, state, shape, views(memory, shape, pages), head, rank).run()
            builds += noted.builds
    return list(dict.fromkeys([*builds, *launched]))


def _outline(model: Decoder) -> Decoder:
    """The decoder on torch's meta device, with one layer of each kind: those of one kind have equal sizes."""
    layers = zip(model.shapes, _on_meta(model.layers), strict=True)
    kinds = {repr(each): each for each in layers}
    outline = copy(model)
    outline.shapes, outline.layers = [shape for shape, _ in kinds.values()], [layer for _, layer in kinds.values()]
    for name in ("embedding", "norm", "lm_head"):
        setattr(outline, name, _on_meta(getattr(model, name)))
    return outline


def _paged(state: PagedState, layers: int) -> PagedState:
    """The state on torch's meta device, with as many layers as that."""
    outline = copy(state)
    outline.cos, outline.sin, outline.last = _on_meta((state.cos, state.sin, state.last))
    outline.keys, outline.values = _on_meta((state.keys[:layers], state.values[:layers]))
    outline.caches = list(zip(outline.keys, outline.values, strict=True))
    return outline


def _on_meta(value: Any) -> Any:
    """The value, or what nested lists and tuples hold, with tensors on torch's meta device."""
    if isinstance(value, Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=META)
    if isinstance(value, list):
        return [_on_meta(each) for each in value]
    if isinstance(value, tuple):
        parts = [_on_meta(each) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value
