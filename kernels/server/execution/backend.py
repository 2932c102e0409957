"""The kernels backend: packed passes over pages, one captured graph for each shape, read one step late."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from kernels.attention.decode_split import MAX_ROWS, SAFE_ROWS
from kernels.cuda.current import device_guard
from kernels.cuda.graphs import capture_graph_of_several
from kernels.hardware import Gpu
from kernels.model import decoder
from kernels.model.all_reduce import AllReduce, all_reduce
from kernels.model.bound_variants import BoundVariants, Packed
from kernels.ops.base import SamplingKind
from kernels.ops.sampling import GREEDY, Sampling
from kernels.plan import KvCacheDtype, PlannedOp
from kernels.quant.quantised_matrix import stored_groups
from kernels.server.execution.heads import MAX_EQUAL_LOGITS, TIMED_AS, most_equal_rows, planned_heads, sampling_kinds
from kernels.server.execution.inputs import Fields, Sequences, size, views
from kernels.server.execution.logits_processing import process_logits
from kernels.server.execution.logprobs import Copied, CopiedPrompt, logprobs_of, read_back, read_prompts
from kernels.server.execution.ops import Copies, Usable, head_ops, packed_ops
from kernels.server.execution.packed import PackedPass, PagedState, TensorParallelPackedPass
from kernels.server.execution.shapes import PassShape, pass_shapes, smallest_holding, startup_shapes
from kernels.server.scheduler.batching import SchedulerLimits
from kernels.server.scheduler.requests import Logprobs, Step


class Captured(NamedTuple):
    """One shape: its pass, of several ranks the first one's; its graph; the device's memory of its fields, and the
    host's, to be used alternately; and what owns the buffers that the graph works on.
    """

    one_pass: PackedPass
    run: Callable[[], object]
    memory: Tensor
    host: "deque[HostBuffers]"
    owner: object


class HostBuffers(NamedTuple):
    """Memory on the host: the fields' bytes, the same as arrays by name, and the ids that come back."""

    memory: Tensor
    fields: dict[str, Any]
    ids: Tensor


@dataclass(frozen=True)
class LaunchedStep:
    """A launched step: ids, log probabilities, the event behind them, and which ids belong to its parts."""

    ids: Tensor
    sampled: list[int]
    logprobs: Copied | None
    prompts: list[CopiedPrompt]
    event: "torch.cuda.Event | None"


IN_FLIGHT = 2
"""Steps that may be launched and not read. The host's memory of a step is written again IN_FLIGHT + 1 steps later."""
BLOCK = 16
"""The most queries of a block of a chunk."""
APART_SECONDS = 2.0
"""While steps are computed, shapes left by a start are captured so far apart: each takes tenths of a second."""
TIMED_LENGTH, TIMED_REPLAYS = 256, 20
"""Tokens of each sequence, and replays, when two arrangements of a pass are timed."""
TIMED_STEPS = 3
"""Replays when the longest pass is looked for."""
TIMED_FROM = 24
"""Singles of a pass from which on its arrangements are timed; with fewer, one kernel for attention and norms within the
products are expected to be faster by far."""
ARRANGEMENTS = {
    "step_attention": ("step_attention", "separate_norms", "own_weights", "separate"),
    "separate": ("separate", "own_weights"),
}
"""The arrangements of a pass without chunks, in the order in which each becomes the fastest as decodes become more: by
the first one, where attention is one kernel and where it is not."""


def block_of(model: decoder.Decoder, kv_cache_dtype: KvCacheDtype = "auto") -> int:
    """The queries of a block of a chunk: as many as decode attention takes with their grouped heads."""
    fp8 = kv_cache_dtype == "fp8"
    rows = min(
        (SAFE_ROWS if fp8 or shape.head_dim <= 32 else MAX_ROWS) // (shape.heads // shape.kv_heads)
        for shape in model.shapes
    )
    return max(1, min(BLOCK, 1 << rows.bit_length() - 1)) if rows else 1


class KernelsBackend:
    """Computes steps with this library's kernels, on a CPU with torch's; `limits.chunk_rows` is the model's `block_of`.
    `prepare` captures shapes, all or a start's; without it each is made when first needed.
    """

    def __init__(
        self,
        model: decoder.Decoder | Sequence[decoder.Decoder],
        gpu: Gpu,
        limits: SchedulerLimits,
        decodes: Sequence[int] = (),
        ops: Sequence[PlannedOp] = (),
        copies: Copies = Copies.ALL,
        exclude: Collection[str] = (),
        weights: str = "",
    ) -> None:
        """`model` may be the shards of one that is sharded over several GPUs, in the order of their ranks.

        `decodes` as `kernels.server.execution.shapes.pass_shapes` takes them. `ops` of a plan go before those of
        `packed_ops` where both are for the same number of rows, unless fewer than all `copies` of the weights may be
        made: they may copy. No variant in `exclude` is used, and of a plan no product of experts that are tiles here.
        `weights` as `Usable` has it.
        """
        self.models = [model] if isinstance(model, decoder.Decoder) else list(model)
        """The decoder of each rank, one where the model is not sharded."""
        model = self.models[0]
        if limits.chunk_rows != (block := block_of(model, limits.kv_cache_dtype)):
            raise ValueError(f"chunk_rows: {limits.chunk_rows} is not the model's block of {block} queries")
        self.model, self.gpu, self.limits = model, gpu, limits
        self.count, self.longest, self.max_num_seqs = 1, limits.max_model_len, 0
        self._devices = [shard.embedding.device for shard in self.models]
        self.device, self.copies = self._devices[0], copies
        usable = [op for op in ops if op.variant not in exclude and not (model.tiled and op.op == "grouped")]
        self._planned = usable if copies is Copies.ALL else []
        self._exclude, self._weights = frozenset(exclude), weights
        self._kv_dtype: Literal["fp8"] | None = None if limits.kv_cache_dtype == "auto" else limits.kv_cache_dtype
        self.shapes = pass_shapes(limits, decodes)
        self._pages = -(-(limits.max_model_len + limits.chunk_rows) // limits.page_size)
        positions = self._pages * limits.page_size
        self.states = []
        size = limits.pages, limits.page_size, limits.max_num_seqs, positions
        for shard, device in zip(self.models, self._devices, strict=True):
            with device_guard(device):
                self.states.append(PagedState(shard, *size, self._kv_dtype))
        self.state = self.states[0]
        rows = max(shape.rows for shape in self.shapes)
        self._all_reduce: AllReduce | None = None
        if len(self.models) > 1:
            self._all_reduce = all_reduce(self._devices, rows, model.embedding)
        self._sequences = Sequences(limits.max_num_seqs, self._pages, limits.page_size)
        self._packed: list[Packed] = [{} for _ in self.models]
        self._captured: dict[PassShape, Captured] = {}
        self._headed: dict[PassShape, dict[SamplingKind, Captured]] = {}
        """The passes that end with an LM head, where that is faster than logits and sampling."""
        self._heads_left: dict[PassShape, dict[SamplingKind, list[PlannedOp]]] = {}
        """The ops of the passes of captured shapes with LM heads that are still to be captured."""
        self._launched: deque[LaunchedStep] = deque()
        self._left: list[PassShape] = []
        """The shapes that `prepare` left, the smallest first."""
        self._kept: list[PassShape] = []
        """Those that are captured, while some are left."""
        self._captured_at = 0.0
        self.pause_ms: float | None = None
        """The ms of the longest step with chunks and decodes, where that was timed."""
        self.timed: dict[PassShape, dict[str, float]] = {}
        """The ms of a pass by its arrangement, where there are two."""
        self._fastest: dict[PassShape, str] = {}
        """The arrangement of each captured pass without chunks."""
        self.timed_heads: dict[tuple[PassShape, SamplingKind], dict[str, float]] = {}
        """The ms of a pass that ends with `logits` and sampling, and of one that ends with the LM `head`."""

    @property
    def graphs(self) -> int:
        """The passes that are kept."""
        return len(self._captured) + sum(map(len, self._headed.values()))

    @property
    def graphs_left(self) -> int:
        return len(self._left) + sum(map(len, self._heads_left.values()))

    def prepare(self, all_shapes: bool = True) -> None:
        """Captures the shapes with their LM heads; unless `all_shapes`, the shapes that a start needs, without heads: a
        step then runs in the smallest captured one that holds it, and the others follow by `capture_next` and under
        load.
        """
        for shape in reversed(self.shapes if all_shapes else startup_shapes(self.shapes)):
            if shape not in self._captured:
                self._prepare(shape)
        while all_shapes and self._heads_left:
            self._capture_head()
        self._count()

    def capture_next(self) -> bool:
        """Captures a head of the smallest captured shape, else the smallest shape left; whether there was one."""
        if self._heads_left:
            self._capture_head()
        elif self._left:
            self._prepare_late(self._left[0])
        else:
            return False
        return True

    def _capture_head(self) -> None:
        shape = min(self._heads_left, key=lambda shape: shape.rows)
        self._add_head(shape, next(iter(self._heads_left[shape])))

    def _prepare_late(self, shape: PassShape) -> None:
        """Captures a shape that is left. Where the memory does not suffice, larger ones serve in its place."""
        try:
            self._prepare(shape)
        except torch.OutOfMemoryError:
            self.shapes = self._kept
        self._count()

    def _count(self) -> None:
        self._left = [shape for shape in self.shapes if shape not in self._captured]
        self._kept = [shape for shape in self.shapes if shape in self._captured]
        self._captured_at = time.monotonic()

    @torch.no_grad()
    def _prepare(self, shape: PassShape) -> None:
        """Captures a shape. A pass of several arrangements is captured in each that passes of fewer and of more decodes
        leave possible, they are timed, and the fastest is kept. Its LM heads are left.
        """
        arrangements = self._possible(shape)
        variants = {name: self._capture(shape, ops) for name, ops in arrangements.items()}
        if len(variants) > 1:
            self.timed[shape] = {name: self._ms(shape, each) for name, each in variants.items()}
        times = self.timed.get(shape, {})
        fastest = min(variants, key=lambda name: times.get(name, 0.0))
        self._captured[shape] = variants[fastest]
        if not shape.blocks:
            self._fastest[shape] = fastest
        if heads := self._heads(shape, arrangements[fastest]):
            self._heads_left[shape] = heads

    def _possible(self, shape: PassShape) -> dict[str, list[PlannedOp]]:
        """The arrangements of a shape that are not left to more or to fewer decodes."""
        arrangements = self._arrangements(shape)
        if shape.blocks:
            return arrangements
        order = ARRANGEMENTS[next(iter(arrangements))]
        ranks = [(other.decodes, order.index(name)) for other, name in self._fastest.items() if name in order]
        first = max((rank for decodes, rank in ranks if decodes < shape.decodes), default=0)
        last = min((rank for decodes, rank in ranks if decodes > shape.decodes), default=len(order))
        between = {name: ops for name, ops in arrangements.items() if first <= order.index(name) <= last}
        return between or arrangements

    def _shape_for(self, step: Step) -> PassShape:
        shape = smallest_holding(self.shapes, step)
        if not self._left or shape in self._captured:
            return shape
        if self._may_capture():
            self._prepare_late(shape)
        return smallest_holding(self._kept, step)

    def _may_capture(self) -> bool:
        """Whether a step may wait for a capture."""
        return time.monotonic() - self._captured_at > APART_SECONDS

    def can_run(self, step: Step) -> bool:
        return step.count == 1

    @torch.no_grad()
    def launch(self, step: Step) -> Callable[[], None] | None:
        shape = self._shape_for(step)
        kind = sampling_kinds(step) if shape in self._headed or shape in self._heads_left else None
        if kind in self._heads_left.get(shape, {}) and self._may_capture():
            self._add_head(shape, kind)
        graph = self._graph(shape, kind)
        host = graph.host[0]
        graph.host.rotate()
        self._sequences.fill(step, shape, host.fields)
        graph.memory.copy_(host.memory, non_blocking=True)
        graph.one_pass.samples_later = step.processes_logits
        graph.run()
        sampled = [*range(len(step.decodes)), *range(shape.decodes, shape.decodes + len(step.prefill_chunks))]
        if step.processes_logits:
            return lambda: self._sample_processed(step, sampled, graph, host)
        self._start_reading(step, sampled, graph, host)
        return None

    @torch.no_grad()
    def _sample_processed(self, step: Step, sampled: list[int], graph: Captured, host: HostBuffers) -> None:
        """Draws the tokens of the step from logits that the requests' processors have changed. On a GPU the pass has
        drawn before; the rows of other requests then get the same tokens again, since their noise is the same.
        """
        graph.one_pass.sample(process_logits(step, sampled, graph.one_pass.logits))
        self._start_reading(step, sampled, graph, host)

    def _start_reading(self, step: Step, sampled: list[int], graph: Captured, host: HostBuffers) -> None:
        host.ids.copy_(graph.one_pass.chosen, non_blocking=True)
        logprobs = read_back(step, sampled, graph.one_pass.logits, graph.one_pass.chosen)
        one_pass = graph.one_pass
        prompts = read_prompts(step, one_pass.shape, one_pass.hidden, one_pass.logits_of)
        event = None
        if self.device.type == "cuda":
            event = torch.cuda.Event()
            event.record()
        self._launched.append(LaunchedStep(host.ids, sampled, logprobs, prompts, event))

    def read(self) -> tuple[list[list[int]], dict[int, Logprobs]]:
        done = self._launched.popleft()
        if done.event is not None:
            done.event.synchronize()
        if self._all_reduce is not None:
            self._all_reduce.check()
        ids = done.ids.tolist()
        tokens = [[ids[row]] for row in done.sampled]
        if [-1] in tokens:
            raise RuntimeError("the LM head gave a row up: more logits are equal than it keeps")
        for prompt in done.prompts:
            prompt.keep()
        return tokens, logprobs_of(done.logprobs)

    @torch.no_grad()
    def pass_ms(self, decodes: int) -> float:
        """The ms of a pass of `decodes` greedy sequences of TIMED_LENGTH tokens, or of the most that run."""
        alone = [candidate for candidate in self.shapes if not candidate.blocks]
        shape = next((candidate for candidate in alone if candidate.decodes >= decodes), alone[-1])
        if "argmax" in self._heads_left.get(shape, {}):
            self._add_head(shape, "argmax")
        return self._ms(shape, self._graph(shape, "argmax"))

    @torch.no_grad()
    def longest_ms(self, shape: PassShape) -> float:
        """The ms of a pass of this shape over the longest sequences that the pages hold."""
        return self._ms(shape, self._graph(shape, None), length=self.limits.max_seq_len, replays=TIMED_STEPS)

    def _graph(self, shape: PassShape, kind: SamplingKind | None) -> Captured:
        """The pass for a step whose tokens the head of this kind can draw."""
        if kind in (heads := self._headed.get(shape, {})):
            return heads[kind]
        if shape not in self._captured:
            self._captured[shape] = self._capture(shape, next(iter(self._arrangements(shape).values())))
            if self._left:
                self._count()
        return self._captured[shape]

    def passes(self) -> Iterator[tuple[PassShape, list[PlannedOp], SamplingKind | None]]:
        """Every shape with the ops of its pass and its LM head, if any, once for each arrangement."""
        for shape in self.shapes:
            for ops in self._arrangements(shape).values():
                yield shape, ops, None
                yield from ((shape, more, kind) for kind, more in self._heads(shape, ops).items())

    def _arrangements(self, shape: PassShape) -> dict[str, list[PlannedOp]]:
        """The ops of the pass, by arrangement: attention in one kernel or in separate ones, norms within the products
        or in kernels of their own. Where weights are in a lower precision, products of more than `skinny`'s rows take
        these or the model's own.
        """
        capacity = self._pages * self.limits.page_size
        given = self.model, shape, self.limits.page_size, capacity
        usable_sets = (self._usable, replace(self._usable, most_copies=min(self.copies, Copies.STREAMED)))
        ops, unfused = ([*self._planned, *packed_ops(*given, usable)] for usable in usable_sets)
        separate = [op for op in ops if op.op != "step_attention"]
        other = {"own_weights" if self._weights else "separate_norms": unfused} if unfused != ops else {}
        if shape.blocks or len(separate) == len(ops):
            return {"separate": separate} | (other if self._weights else {})
        return {"step_attention": ops} | ({"separate": separate} | other if shape.decodes >= TIMED_FROM else {})

    def _heads(self, shape: PassShape, ops: Sequence[PlannedOp]) -> dict[SamplingKind, list[PlannedOp]]:
        """The ops of the pass with each LM head that can end it."""
        more = [*ops, *head_ops(self.model, shape, self._usable)]
        return {kind: more for kind in planned_heads(self.model, shape, more)}

    @property
    def _usable(self) -> Usable:
        products = (self.model.lm_head, *self.model.layers[0].streamed)
        grouped = bool(self._weights) and any(stored_groups([product]) is not None for product in products)
        stored = grouped or self._weights == "fp8"
        partial, tiled = len(self.models) > 1, self.model.tiled
        return Usable(self.gpu, self.copies, self._exclude, self._weights, not stored, partial, tiled, self._kv_dtype)

    @torch.no_grad()
    def _add_head(self, shape: PassShape, kind: SamplingKind) -> None:
        """Captures a head that is left, times it beside logits and sampling, and keeps the faster."""
        ops = self._heads_left[shape].pop(kind)
        if not self._heads_left[shape]:
            del self._heads_left[shape]
        if kind == "top_k_p" and self._equal_rows > MAX_EQUAL_LOGITS:
            return
        try:
            graph, how = self._capture(shape, ops, kind), TIMED_AS[kind]
            logits, head = (self._ms(shape, value, how) for value in (self._captured[shape], graph))
        except torch.OutOfMemoryError:
            return
        self.timed_heads[shape, kind] = {"logits": logits, "head": head}
        if head < logits:
            self._headed.setdefault(shape, {})[kind] = graph
        self._captured_at = time.monotonic()

    @cached_property
    def _equal_rows(self) -> int:
        return most_equal_rows(self.model.lm_head)

    def _capture(self, shape: PassShape, ops: Sequence[PlannedOp], head: SamplingKind | None = None) -> Captured:
        length = size(shape, self._pages)
        memories = [torch.zeros(length, dtype=torch.uint8, device=device) for device in self._devices]
        host = deque(self._host(shape, length) for _ in range(IN_FLIGHT + 1))
        self._sequences.fill(Step(), shape, host[0].fields)  # nothing but padding
        memories[0].copy_(host[0].memory)
        passes = []
        for rank, (model, state, memory) in enumerate(zip(self.models, self.states, memories, strict=True)):
            with device_guard(memory.device):
                variants = BoundVariants(ops, self.gpu, self._packed[rank])
                fields = views(memory, shape, self._pages)
                passes.append(PackedPass(model, variants, state, shape, fields, head, self._rank(rank)))
        owner: PackedPass | TensorParallelPackedPass = passes[0]
        if self._all_reduce is not None:
            owner = TensorParallelPackedPass(passes, memories, self._all_reduce)
        run = capture_graph_of_several(owner.run, self._devices) if self.device.type == "cuda" else owner.run
        return Captured(passes[0], run, memories[0], host, owner)

    def _rank(self, rank: int) -> int | None:
        """The rank that a pass is told; None where the model is not sharded."""
        return None if self._all_reduce is None else rank

    @torch.no_grad()
    def _ms(
        self,
        shape: PassShape,
        graph: Captured,
        sampling: Sampling = GREEDY,
        length: int = TIMED_LENGTH,
        replays: int = TIMED_REPLAYS,
    ) -> float:
        """The ms of a replay over sequences of `length` tokens, or of the longest, with this `sampling`. Their newest
        tokens are unlike, so that a mixture's router spreads them over its experts.
        """
        length, fields = min(length, self.limits.max_seq_len), graph.host[0].fields
        self._sequences.pretend(shape, length, self.limits.pages, fields, sampling)
        fields["given"][:] = np.arange(shape.rows) % len(self.model.embedding)
        graph.memory.copy_(graph.host[0].memory)
        graph.run()
        replays = replays if self.device.type == "cuda" else 1
        self._synchronize()
        began = time.perf_counter()
        for _ in range(replays):
            graph.run()
        self._synchronize()
        return (time.perf_counter() - began) * 1e3 / replays

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _host(self, shape: PassShape, length: int) -> HostBuffers:
        pinned = self.device.type == "cuda"
        memory = torch.zeros(length, dtype=torch.uint8, pin_memory=pinned)
        fields: Fields = views(memory, shape, self._pages)
        arrays = {name: each.numpy() for name, each in fields._asdict().items()}
        return HostBuffers(memory, arrays, torch.zeros(shape.sampled, dtype=torch.int64, pin_memory=pinned))
