"""What a server compiles, listed before it is needed, so that it is compiled in parallel."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kernels.cuda.nvrtc import Build
from kernels.cuda.triton_build import TritonBuild, compiling_for
from kernels.hardware import Gpu
from kernels.megakernel.host import device
from kernels.megakernel.program.layout import default_layout, serving_layout
from kernels.megakernel.program.ranks import max_served_batch, programs, shard_of
from kernels.megakernel.program.shape import MAX_BATCH, Unsupported, shape_of
from kernels.megakernel.proof.validate import Proof
from kernels.model import all_reduce
from kernels.model.bound_variants import BoundVariants
from kernels.model.decoder import Decoder, refusal
from kernels.model.expert_tiles import can_tile, check_builds, tile_experts
from kernels.model.loading import skeleton
from kernels.model.tensor_parallel import shard_config
from kernels.ops import Case
from kernels.plan import PlannedOp
from kernels.quant.formats import megakernel_precision
from kernels.registry import Variant
from kernels.runners.plan_files import PlanRefused, read_plan
from kernels.server.execution.backend import KernelsBackend
from kernels.server.execution.inputs import size, views
from kernels.server.execution.megakernel_backend import capacity_of
from kernels.server.execution.packed import PackedPass, PagedState
from kernels.server.execution.served_plans import (
    MEGAKERNEL_BATCHES,
)
from kernels.server.execution.server_config import ServerConfig, server_config
from kernels.server.execution.sizing import context_of, limits_for
from kernels.server.spec import Spec, configuration

MAKE = "import pickle, sys; [each.make() for each in pickle.load(sys.stdin.buffer)]"
"""Makes the proofs or Triton's kernels that come on the standard input."""


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
        if gpu.sm != 90 or batch > MAX_BATCH:
            continue
        try:
            shape = shard_of(shape_of(config), tensor_parallel_size, weights)
        except Unsupported:
            return
        if served and batch > max_served_batch(shape, tensor_parallel_size):
            continue
        try:
            layout_of = serving_layout if served else default_layout
            layout = layout_of(shape, batch, capacity, weights, gpu.sms, tensor_parallel_size)
            build = device.build_of(device.defines(programs(shape, layout)[0], device.Tuning(trace=traced)))
        except ValueError:  # the runtime refuses it too
            continue
        yield build, Proof(shape, layout)


def compile_together(builds: Iterable[Build | TritonBuild | Proof]) -> int:
    """Makes those that are not there yet, as many at once as there are processors: CUDA C++ in threads from when it
    comes, proofs and Triton's kernels in processes of their own. Returns how many there are, each counted once. Raises
    RuntimeError with NVRTC's log.
    """
    processors, seen, of_triton = os.cpu_count() or 1, set[Build | TritonBuild | Proof](), list[TritonBuild]()
    with ThreadPoolExecutor(processors) as threads, ThreadPoolExecutor(processors) as processes:
        compiling = []
        for item in builds:
            if item in seen:
                continue
            seen.add(item)
            if isinstance(item, Build):
                compiling.append(threads.submit(item.binary))
            elif not item.is_made:
                if isinstance(item, TritonBuild):
                    of_triton.append(item)
                else:
                    processes.submit(_make, [item])
        for number in range(processors):
            if group := of_triton[number::processors]:
                processes.submit(_make, group)
        for build in compiling:
            build.result()
    return len(seen)


def _make(several: Sequence[TritonBuild | Proof]) -> None:
    """Makes some in a fresh interpreter: a daemon may have no children. What fails is made when it is needed."""
    subprocess.run([sys.executable, "-c", MAKE], input=pickle.dumps(several), stderr=subprocess.DEVNULL, check=False)


META = torch.device("meta")
OUTPUTS: Mapping[str, Callable[[Any], Callable[..., Tensor]]] = {
    "linear": lambda case: lambda x, *_, **kwargs: x.new_empty(case.m, case.n),
    "grouped": lambda case: lambda x, *_, **kwargs: x.new_empty(len(x), case.n),
    "lm_head": lambda case: lambda x, *_, **kwargs: x.new_empty(case.m, dtype=torch.int64),
    "step_attention": lambda case: lambda qkv, *_, **kwargs: qkv.new_empty(len(qkv), case.heads * case.head_dim),
}
"""By op what stands for a function in CUDA C++: it gives an output of the right shape."""


class RunnableVariants(NotedVariants):
    """Noted variants whose functions run on torch's meta device."""

    def built(self, variant: Variant, case: Case, params: dict[str, Any]) -> Any:
        count = len(self.builds)
        super().built(variant, case, params)
        return variant.build(case, params) if len(self.builds) == count else OUTPUTS[case.op](case)


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
    kinds = {repr(item): item for item in layers}
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
    outline.scales = [{name: _on_meta(scale) for name, scale in item.items()} for item in state.scales[:layers]]
    outline.caches = list(zip(outline.keys, outline.values, strict=True))
    return outline


def _on_meta(value: Any) -> Any:
    """The value, or what nested lists and tuples hold, with tensors on torch's meta device."""
    if isinstance(value, Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=META)
    if isinstance(value, list):
        return [_on_meta(item) for item in value]
    if isinstance(value, tuple):
        parts = [_on_meta(item) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


AnyBuild = Build | TritonBuild | Proof


def may_tile(shards: Sequence[Any], gpu: Gpu, weights: str, exclude: Collection[str]) -> bool:
    """Whether a server puts tiles in place of the experts of a model's shards, if they are right and faster."""
    return not weights and "grouped_hopper" not in exclude and all(can_tile(shard, gpu) for shard in shards)


def served_builds(config: dict[str, Any], gpu: Gpu, server: ServerConfig) -> Iterator[AnyBuild]:
    """What a server compiles whose GPU holds all copies of the weights. What takes the longest comes first: products of
    experts, then the megakernel.

    Raises ValueError for a model that the compact decoder does not run, and for a number of GPUs that does not divide
    it.
    """
    size = server.tensor_parallel_size
    model = skeleton(shard_config(config, size) if size > 1 else config, server.dtype)
    if reason := refusal(model):
        raise ValueError(f"the compact decoder cannot run the model: {reason}")
    if size > 1:
        yield all_reduce.build_of(size)
    weights = server.weights or server.default_weights(config, gpu, size)
    if may_tile([model], gpu, weights, server.exclude):
        yield from check_builds(model, gpu)
        tile_experts(model)
    if server.dtype == "bf16":
        batches = [batch for batch in MEGAKERNEL_BATCHES if batch < 2 * server.max_megakernel_batch]
        capacity = capacity_of(context_of(model.config, server.size))
        precision = megakernel_precision(weights) or "bf16"
        yield from chain.from_iterable(megakernels(config, gpu, capacity, batches, precision, size, served=True))
    decoder = Decoder(model)
    limits = limits_for(decoder, model.config, server.size)
    yield from pass_builds(
        KernelsBackend(
            [decoder] * size, gpu, limits, server.decodes, server.ops, exclude=server.exclude, weights=weights
        )
    )


def compile_ahead(spec: Spec, gpu: Gpu) -> bool:
    """Makes what the engine of this server needs. Returns False where it refuses the server: the engine says why."""
    with suppress(ValueError, OSError, PlanRefused):
        plan = read_plan(Path(spec.plan)) if spec.plan else None
        compile_together(served_builds(configuration(spec)[1], gpu, server_config(spec, plan)))
        return True
    return False
