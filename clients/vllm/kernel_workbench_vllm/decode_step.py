"""The decode step of a whole model by this library's kernels, on another engine's weights and KV pages.

ids ─► embedding ─► ┌─ norm · QKV ─► rope, append to pages, attention ─► O ─► norm · gate_up, SwiGLU ─► down ─┐ ─►
                    └────────────────────────────── once a layer ─────────────────────────────────────────────┘
─► norm ─► hidden states

Heads may be normed before their rotation, and the MLP may be experts.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.dtypes import DTYPE_NAMES
from kernels.hardware import Gpu
from kernels.model.bound_variants import BoundVariants, Packed
from kernels.model.decoder import Decoder, LayerShape
from kernels.model.layer_cases import attention_case, fits_step, rope_case, step_case, step_weights
from kernels.model.layer_weights import Weights
from kernels.model.products import Rows, Stream, added_product, mlp_half, normed_product
from kernels.ops import TORCH_VARIANTS
from kernels.plan import Plan, PlannedOp
from kernels.runners.plan_files import PlanRefused, read_model, read_plan
from kernels.server.execution.compiling import NotedVariants, compile_together
from kernels.server.execution.heads import head_case, sampling_head
from kernels.server.execution.ops import Usable, head_ops, packed_ops
from kernels.server.execution.served_plans import plan_weights, precision_refusal
from kernels.server.execution.shapes import PassShape
from kernels.server.execution.sizing import packed_bytes

MAX_ROWS = 64
"""The most sequences of a step that this library computes. Steps of 1 and 32 were traced within vLLM, both faster; none
of more than 64, whose norms are kernels of their own, was."""
MAX_ROWS_OF_SEVERAL = 128
"""The same where a pass makes several tokens: a pass that vLLM computes makes one, from as many ids."""

Caches = Sequence[tuple[Tensor, Tensor]]
"""Keys and values of each layer, [pages, page_size, kv_heads, head_dim], of any strides but the last."""


class Pages(NamedTuple):
    """The tokens of a page of the caches, and the most tokens of a sequence."""

    page_size: int
    capacity: int


class EngineModel(Decoder):
    """A decoder's weights as another engine loaded them; `cos` and `sin` [positions, head_dim] in its dtype."""

    def __init__(
        self,
        embedding: Tensor,
        layers: list[Weights],
        shapes: list[LayerShape],
        norm: Tensor,
        lm_head: Tensor,
        rope_table: tuple[Tensor, Tensor],
    ) -> None:
        self.embedding, self.layers, self.shapes, self.norm, self.lm_head = embedding, layers, shapes, norm, lm_head
        self.cos, self.sin = rope_table
        self.eps, self.logit_cap = shapes[0].eps, None


def plan_for(path: Path, model: Path, gpu: Gpu) -> Plan:
    """The plan in a file. Raises PlanRefused where it is not for this model, this precision or this GPU."""
    plan = read_plan(path)
    if plan.gpu != gpu.gpu_class or plan.tensor_parallel_size > 1:
        raise PlanRefused(
            f"{path}: it was made for {plan.tensor_parallel_size} {plan.gpu}, and this is {gpu.gpu_class}"
        )
    if refusal := precision_refusal(plan):
        raise PlanRefused(refusal)
    read_model(model, plan)
    return plan


def planned_ops(model: EngineModel, plan: Plan, gpu: Gpu, rows: int, pages: Pages) -> list[PlannedOp]:
    """The ops of a step of `rows` sequences: the plan's own first, then the defaults, of int8 weights where the plan
    rounds to them. The head that chooses a token keeps the model's own weights, as vLLM's logits do.
    """
    exclude: Collection[str] = plan.serving.exclude if plan.serving else ()
    usable = Usable(gpu, exclude=exclude, weights=plan_weights(plan))
    shape = PassShape(decodes=rows, blocks=0, block=1, prefill_chunks=0)
    ops = [op for op in plan.ops if plan.runner == "kernels" and op.op != "lm_head" and op.variant not in exclude]
    heads = head_ops(model, shape, replace(usable, weights=""))
    return [*ops, *packed_ops(model, shape, *pages, usable), *heads]


class StepInput(NamedTuple):
    """Where tokens go: `position` [rows] int64, page_table [rows, pages] int32, cos and sin [rows, 1, head_dim]."""

    position: Tensor
    page_table: Tensor
    angles: tuple[Tensor, ...]


class DecodeStep:
    """The step for a number of rows, which may be captured; weights are packed once, attention at the first call."""

    def __init__(
        self, model: EngineModel, variants: BoundVariants, rows: int, pages: Pages, choose: bool = False
    ) -> None:
        """With `choose` the weight of the head that chooses a token within `several` is packed too."""
        self.model, self._pages = model, pages
        self._rows = Rows(variants, rows, DTYPE_NAMES[model.embedding.dtype], model.eps)
        self._rotates = False
        self._attend = [self._attention(w, shape) for w, shape in zip(model.layers, model.shapes, strict=True)]
        self._products = [
            (
                normed_product(self._rows, w.input_norm, w.qkv[0], w.qkv_bias[0]),
                added_product(self._rows, w.o, w.o_bias),
                mlp_half(self._rows, w),
            )
            for w in model.layers
        ]

        head = head_case(model, rows, "argmax")  # type: ignore[arg-type]
        self._choose = sampling_head(self._rows, model, None, "argmax") if choose and variants.planned(head) else None

    def __call__(self, ids: Tensor, position: Tensor, page_table: Tensor, caches: Caches) -> Tensor:
        """Normed hidden states [rows, hidden] of `ids` [rows] at `position` [rows]; keys and values go into caches."""
        return self._rows.norm(self._layers(ids, position, page_table, caches), self.model.norm)

    def several(self, ids: Tensor, position: Tensor, page_table: Tensor, caches: Caches, last: bool = True) -> Tensor:
        """The normed hidden states [rows, places, hidden] of consecutive tokens `ids` [rows, places] of each sequence,
        one step after the other. An id below 0 is replaced, in `ids` too, by the most likely one after those before it.
        Unless the `last` place is wanted, its id is written alone.
        """
        # Rows of padding hold what was there; no id of theirs may reach beyond the embedding.
        largest = len(self.model.embedding) - 1
        hidden, at, token = [], position.t().contiguous(), ids[:, 0].clamp(0, largest)
        for step, following in enumerate([*ids.t()[1:], *([None] if last else [])]):
            stream = self._layers(token, at[step], page_table, caches)
            hidden.append(self._rows.norm(Stream(stream.summed()), self.model.norm))
            if following is not None:
                chosen = self._choose(stream) if self._choose else F.linear(hidden[-1], self.model.lm_head).argmax(-1)
                token = torch.where(following < 0, chosen.to(ids.dtype), following).clamp_(0, largest)
                following.copy_(token)
        return torch.stack(hidden, dim=1)

    def _layers(self, ids: Tensor, position: Tensor, page_table: Tensor, caches: Caches) -> Stream:
        tables = (self.model.cos, self.model.sin) if self._rotates else ()
        given = StepInput(position, page_table, tuple(table[position][:, None] for table in tables))
        stream = Stream(F.embedding(ids, self.model.embedding))
        for (qkv, out, mlp), attend, (keys, values) in zip(self._products, self._attend, caches, strict=True):
            out(attend(qkv(stream), keys, values, given), stream)
            mlp(stream)
        return stream

    def _attention(self, w: Weights, shape: LayerShape) -> Callable[[Tensor, Tensor, Tensor, StepInput], Tensor]:
        """f(qkv, keys, values, input) -> o [rows, heads · head_dim]; k and v go into their pages."""
        (page_size, capacity), variants, rows, dtype = self._pages, self._rows.variants, self._rows.m, self._rows.dtype
        fused = step_case(w, shape, rows, capacity, dtype, page_size)
        decode = attention_case(shape, "decode", rows, 1, capacity, dtype, page_size)
        if fits_step(w, shape) and (variants.planned(fused) or not variants.planned(decode)):
            step, norms, (cos, sin) = (
                variants.bound(fused).function,
                step_weights(w),
                (self.model.cos, self.model.sin),
            )
            return lambda qkv, keys, values, given: step(
                qkv, cos, sin, keys, values, given.position, page_table=given.page_table, **norms
            )
        append = variants.bound(rope_case(shape, rows, 1, dtype, page_size)).function
        attend = variants.bound(decode).function
        count = [shape.heads, shape.kv_heads, shape.kv_heads]
        self._rotates = True

        def separate(qkv: Tensor, keys: Tensor, values: Tensor, given: StepInput) -> Tensor:
            q, k, v = qkv.view(rows, 1, -1, shape.head_dim).split(count, dim=2)
            if w.q_norm is not None and w.k_norm is not None:
                q, k = self._rows.head_norm(q, w.q_norm), self._rows.head_norm(k, w.k_norm)
            q = append(q, k, v, *given.angles, keys, values, given.position, given.page_table)
            o: Tensor = attend(q, keys, values, position=given.position, page_table=given.page_table)
            return o.view(rows, -1)

        return separate


class DraftWriter:
    """Drafts of the decodes that lead a batch, in buffers of its own: CUDA graphs for each number of rows replay it."""

    def __init__(self, steps: Mapping[int, DecodeStep], tokens: int, pages: Pages) -> None:
        """`tokens` are the tokens of a decode in a pass: one, and its drafts."""
        max_rows = max(steps)
        device, columns = steps[max_rows].model.embedding.device, -(-pages.capacity // pages.page_size)
        self._steps = steps
        self._ids = torch.zeros(max_rows, tokens, dtype=torch.int32, device=device)
        self._position = torch.zeros(max_rows, tokens, dtype=torch.int64, device=device)
        self._page_table = torch.zeros(max_rows, columns, dtype=torch.int32, device=device)
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def capture(self, caches: Caches) -> None:
        """Captures a graph for each number of rows. Raises what CUDA raises, and then every step is launched anew."""
        pool, graphs = torch.cuda.graph_pool_handle(), dict[int, torch.cuda.CUDAGraph]()
        with torch.cuda.stream(torch.cuda.current_stream()):  # a failed capture leaves its own stream the current one
            for rows in sorted(self._steps, reverse=True):
                self._compute(rows, caches)  # what a kernel allocates at its first call is no part of a graph
                graphs[rows] = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graphs[rows], pool=pool, capture_error_mode="thread_local"):
                    self._compute(rows, caches)
        self._graphs = graphs

    def write(self, ids: Tensor, position: Tensor, page_table: Tensor, caches: Callable[[], Caches]) -> None:
        """Replaces what is below 0 in `ids` [decodes, places] int32, at `position` [decodes, places] int64. page_table
        [decodes, pages] int32. Nothing is written of more decodes than a step has rows.
        """
        decodes = len(ids)
        rows = min((rows for rows in self._steps if rows >= decodes), default=0)
        if not rows:
            return
        self._ids[:decodes].copy_(ids)
        for buffer, given in ((self._position, position), (self._page_table, page_table)):
            buffer[:decodes, : given.shape[1]].copy_(given)
            buffer[decodes:rows].zero_()  # a row of padding is a sequence at the start of page 0, which is for such
        if rows in self._graphs:
            self._graphs[rows].replay()
        else:
            self._compute(rows, caches())
        ids.copy_(self._ids[:decodes])

    def _compute(self, rows: int, caches: Caches) -> None:
        given = (buffer[:rows] for buffer in (self._ids, self._position, self._page_table))
        self._steps[rows].several(*given, caches, last=False)


class DecodeSteps:
    """The steps of a model by their number of rows. Compiles and packs all of them; nothing is allocated later."""

    def __init__(
        self, model: EngineModel, plan: Plan, gpu: Gpu, sizes: Collection[int], pages: Pages, choose: bool = False
    ) -> None:
        """Raises ValueError where memory does not hold the packed weights. A step with torch's ops is left out."""
        on_gpu = model.embedding.is_cuda
        if on_gpu:
            needed = packed_bytes(model, gpu, weights=plan_weights(plan)) + (model.lm_head.nbytes if choose else 0)
            free = torch.cuda.mem_get_info()[0]
            if needed > free // 2:
                raise ValueError(f"packed copies of the weights take {needed / 2**30:.1f} of {free / 2**30:.1f} GiB")
        max_rows = MAX_ROWS_OF_SEVERAL if choose else MAX_ROWS
        ops = {rows: planned_ops(model, plan, gpu, rows, pages) for rows in sorted(sizes) if rows <= max_rows}
        if on_gpu:
            noted = {rows: NotedVariants(each, gpu) for rows, each in ops.items()}
            for rows, variants in noted.items():
                DecodeStep(model, variants, rows, pages, choose)
            ops = {rows: ops[rows] for rows, variants in noted.items() if not variants.names & set(TORCH_VARIANTS)}
            compile_together(build for rows in ops for build in noted[rows].builds)
        packed: Packed = {}
        self.steps: dict[int, DecodeStep] = {}
        self.variants: dict[str, list[int]] = {}
        """The rows of the steps that each variant was bound in."""
        for rows, each in ops.items():
            variants = BoundVariants(each, gpu, packed)
            self.steps[rows] = DecodeStep(model, variants, rows, pages, choose)
            for name in sorted(variants.names):
                self.variants.setdefault(name, []).append(rows)
