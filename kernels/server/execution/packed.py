"""One pass of the compact decoder over tokens of many sequences, whose keys and values lie in pages.

    ids ─► embed ─► ┌─ norm · QKV ─► rope, append to pages ─► attention ─► O ─► norm · gate_up, SwiGLU ─► down ─┐ ─►
                    └────────────────────────────────── once a layer ─────────────────────────────────────────┘
    ─► rows that end a part ─► norm · logits ─► sample ─► last token of each slot
                            └► an LM head that samples ──┘

All products take all rows. Attention takes the decodes in one call and the blocks of chunks in another: a block is a
short sequence of queries whose last one sees the most keys, so its length says where it stands in its sequence. In a
pass of decodes alone, one kernel may rotate, append and attend: no row then reads what another row of the pass writes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.cuda.current import device_guard
from kernels.dtypes import DTYPE_NAMES
from kernels.model import decoder
from kernels.model.all_reduce import AllReduce
from kernels.model.bound_variants import BoundVariants
from kernels.model.decoder import LayerShape, masked_attention
from kernels.model.layer_cases import attention_case, default_scale, fits_step, rope_case, step_case, step_weights
from kernels.model.layer_weights import Weights
from kernels.model.products import Rows, Stream, added_product, mlp_half, normed_product
from kernels.model.tensor_parallel_pass import follow, join, run_halves
from kernels.ops.base import SamplingKind
from kernels.ops.sampling import TEMPERATURES, Sampling, sample_token
from kernels.server.execution.heads import sampling_head
from kernels.server.execution.inputs import Fields
from kernels.server.execution.shapes import PassShape

RopeAngles = tuple[Tensor, Tensor]


@dataclass
class PackedInput:
    """What a half of a layer takes: the residual stream, and angles of each table where an op asks for them."""

    stream: Stream
    angles: list[RopeAngles] | None


Half = Callable[[PackedInput], None]


class PagedState:
    """The memory that all passes of a backend share.

    `keys` and `values` [layers, pages, page_size, kv_heads, head_dim], `caches` those of each layer; of pages in fp8
    `scales` of each layer [kv_heads], a checkpoint's own or 1; `last` [slots + 1] int64, the newest token of each slot;
    cos and sin [positions, head_dim]. Raises ValueError for layers of unlike heads.
    """

    def __init__(
        self,
        model: decoder.Decoder,
        pages: int,
        page_size: int,
        slots: int,
        positions: int,
        kv_dtype: Literal["fp8"] | None = None,
    ) -> None:
        self.kv_dtype = kv_dtype
        self.page_size, self.positions = page_size, positions
        self.cos, self.sin = model.rope_table(positions)
        if len({(shape.kv_heads, shape.head_dim) for shape in model.shapes}) > 1:
            raise ValueError("the model's layers have unlike heads: their pages would have unlike sizes")
        heads = model.shapes[0]
        size = len(model.shapes), pages, page_size, heads.kv_heads, heads.head_dim
        dtype = torch.float8_e4m3fn if kv_dtype else model.embedding.dtype
        self.keys, self.values = (model.embedding.new_zeros(size, dtype=dtype) for _ in range(2))
        ones = model.embedding.new_ones(heads.kv_heads, dtype=torch.float32)
        self.scales: list[dict[str, Tensor]] = [
            {
                name: ones if scale is None else scale.to(ones.device).expand(heads.kv_heads).contiguous()
                for name, scale in zip(("k_scale", "v_scale"), w.kv_scales, strict=True)
                if kv_dtype
            }
            for w in model.layers
        ]
        self.caches = list(zip(self.keys, self.values, strict=True))
        self.last = torch.zeros(slots + 1, dtype=torch.int64, device=model.embedding.device)


class PackedPass:
    """The pass of one shape: `run` works on `fields` and can be captured. With a `rank` the model is its shard:
    `halves` leave partial sums, as those of `kernels.model.passes.Pass`, and the first rank alone has a head.
    """

    def __init__(
        self,
        model: decoder.Decoder,
        variants: BoundVariants,
        state: PagedState,
        shape: PassShape,
        fields: Fields,
        head: SamplingKind | None = None,
        rank: int | None = None,
    ) -> None:
        """It ends with the LM head of this kind, which must be planned; None: with logits and sampling."""
        self.model, self.variants, self.state, self.shape, self.fields = model, variants, state, shape, fields
        self.dtype = DTYPE_NAMES[model.embedding.dtype]
        self._rows = Rows(variants, shape.rows, self.dtype, model.eps)
        self._sampled_rows = Rows(variants, shape.sampled, self.dtype, model.eps)
        self._rotates = False
        self._partial = rank is not None
        self.halves = [half for index in range(len(model.layers)) for half in self._layer(index)]
        self.head = head
        if rank:
            return
        if head is None:
            self._end = normed_product(self._sampled_rows, model.norm, model.lm_head, None)
        else:
            self._end = sampling_head(self._sampled_rows, model, fields, head)
        self.chosen = torch.zeros(shape.sampled, dtype=torch.int64, device=state.last.device)
        self.hidden = model.embedding.new_empty(0)
        """What the last layer made of all rows [rows, hidden], kept as the logits are."""
        self.samples_later = False
        """Whether `run` leaves sampling to its caller; a captured run samples nevertheless."""
        self.logits = self.chosen.new_empty(0)
        """The logits [sampled, vocab] of the last run, empty with an LM head; of a captured run at one address."""

    def run(self) -> None:
        """Computes the rows and their keys and values; tokens go into `chosen` and `last`, or logits into `logits`."""
        inputs = self.begin()
        for half in self.halves:
            half(inputs)
        self.end(inputs)

    def begin(self) -> PackedInput:
        """What `run` does before the layers."""
        fields, state = self.fields, self.state
        stream = Stream(embed_tokens(fields, state.last, self.model.embedding))
        if not self._rotates:
            return PackedInput(stream, None)
        size = self.model.shapes[0].head_dim
        each = zip(*(table[fields.position].split(size, dim=-1) for table in (state.cos, state.sin)), strict=True)
        return PackedInput(stream, [(cos.contiguous()[:, None], sin.contiguous()[:, None]) for cos, sin in each])

    def end(self, inputs: PackedInput) -> None:
        """What `run` does after the layers."""
        x = inputs.stream.summed()
        ends = x.index_select(0, self.fields.end) if self.shape.blocks else x
        self.hidden = x
        result = self._end(Stream(ends))
        if self.head is None:
            self.logits = decoder.softcap(result, self.model.logit_cap)
            if not self.samples_later:
                self.sample(self.logits)
        else:
            self.chosen = result
            self.state.last.index_copy_(0, self.fields.target, result)

    def logits_of(self, hidden: Tensor) -> Tensor:
        """The logits of some rows of `hidden`."""
        return self.model.logits(decoder.rms_norm(hidden, self.model.norm, self.model.eps))

    def sample(self, logits: Tensor) -> None:
        """Leaves the token of each sampled row, from these logits, in `chosen` and in `last` of its slot."""
        sample_tokens(logits, self.fields, self.chosen, self.state.last)

    def _layer(self, index: int) -> tuple[Half, Half]:
        w, shape = self.model.layers[index], self.model.shapes[index]
        keys, values = self.state.caches[index]
        qkv = normed_product(self._rows, w.input_norm, w.qkv[0], w.qkv_bias[0])
        attend = self._attention(w, shape, keys, values, self.state.scales[index])
        out = added_product(self._rows, w.o, w.o_bias, self._partial, w.attention_norm)
        transform = mlp_half(self._rows, w, self._partial)

        def attention(inputs: PackedInput) -> None:
            out(attend(qkv(inputs.stream), inputs.angles[shape.rope] if inputs.angles else None), inputs.stream)

        def mlp(inputs: PackedInput) -> None:
            transform(inputs.stream)

        return attention, mlp

    def _attention(
        self, w: Weights, shape: decoder.LayerShape, keys: Tensor, values: Tensor, scales: Mapping[str, Tensor]
    ) -> Callable[[Tensor, RopeAngles | None], Tensor]:
        """qkv [rows, (heads + 2 · kv_heads) · head_dim] ↦ o [rows, heads · head_dim]; k and v go into their pages."""
        fields, state = self.fields, self.state
        step = None
        if not self.shape.blocks and state.kv_dtype is None and fits_step(w, shape):
            step = self.variants.planned(
                step_case(w, shape, self.shape.rows, state.positions, self.dtype, state.page_size)
            )
        if step is not None:
            function, weights = step.function, step_weights(w)
            return lambda qkv, _: function(
                qkv, state.cos, state.sin, keys, values, fields.position, page_table=fields.tables, **weights
            )
        more = {**scales, **({} if w.sinks is None else {"sinks": w.sinks})}
        rotate, attend = self._rope(w, shape, keys, values, scales), self._attend_apart(more, shape, keys, values)
        count = [shape.heads, shape.kv_heads, shape.kv_heads]
        self._rotates = True

        def run(qkv: Tensor, angles: RopeAngles | None) -> Tensor:
            assert angles is not None
            q, k, v = qkv.view(self.shape.rows, 1, -1, shape.head_dim).split(count, dim=2)
            return attend(rotate(q, k, v, *angles))

        return run

    def _rope(
        self, w: Weights, shape: decoder.LayerShape, keys: Tensor, values: Tensor, scales: Mapping[str, Tensor]
    ) -> Callable[..., Tensor]:
        """(q, k, v, cos, sin) ↦ rotated q. Each row is a sequence of one token whose cache is one page."""
        case = rope_case(shape, self.shape.rows, 1, self.dtype, self.state.page_size, kv_dtype=self.state.kv_dtype)
        append, fields = self.variants.bound(case).function, self.fields

        def rotate(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
            if w.q_norm is not None and w.k_norm is not None:
                q, k = self._rows.head_norm(q, w.q_norm), self._rows.head_norm(k, w.k_norm)
            rotated: Tensor = append(q, k, v, cos, sin, keys, values, fields.offset, fields.page, **scales)
            return rotated

        return rotate

    def _attend_apart(
        self, more: Mapping[str, Tensor], shape: decoder.LayerShape, keys: Tensor, values: Tensor
    ) -> Callable[[Tensor], Tensor]:
        """Rotated q [rows, 1, heads, head_dim] ↦ o [rows, heads · head_dim], with `more` arguments of attention."""
        fields, (decodes, blocks, block, _) = self.fields, self.shape
        by_block = blocks, block, shape.heads, shape.head_dim
        of_decodes = self._attend(more, shape, decodes, 1) if decodes else None
        of_blocks = self._attend(more, shape, blocks, block) if blocks else None

        def run(q: Tensor) -> Tensor:
            o = q.new_empty(q.shape)
            if of_decodes is not None:
                of_decodes(q[:decodes], keys, values, fields.lengths, fields.tables, out=o[:decodes])
            if of_blocks is not None:
                read, out = q[decodes:].view(by_block), o[decodes:].view(by_block)
                of_blocks(read, keys, values, fields.block_lengths, fields.block_tables, out=out)
            return o.view(len(o), -1)

        return run

    def _attend(
        self, more: Mapping[str, Tensor], shape: decoder.LayerShape, batch: int, queries: int
    ) -> Callable[..., Tensor]:
        """f(q [batch, queries, heads, head_dim], keys, values, lengths, tables, out=o), o like q, planned or torch's"""
        state = self.state
        capacity = self.fields.tables.shape[1] * state.page_size
        case = attention_case(
            shape, "decode", batch, queries, capacity, self.dtype, state.page_size, kv_dtype=state.kv_dtype
        )
        planned = self.variants.planned(case) if default_scale(shape) else None
        if planned is not None:
            return lambda *args, out: planned.function(*args, out=out, **more)
        attend = partial(paged_attention, shape=shape, **more)
        return lambda *args, out: out.copy_(attend(*args))


class TensorParallelPackedPass:
    """The passes of all ranks as one; the first rank's has fields, ids and logits. `memories[r]` [bytes] is what rank
    r's fields view: the first's, and its newest tokens, are copied to others before each run.
    """

    def __init__(self, passes: Sequence[PackedPass], memories: Sequence[Tensor], all_reduce: AllReduce) -> None:
        self._passes, self._all_reduce = passes, all_reduce
        self._memories = [memory.view(torch.int64) for memory in memories]
        self._devices = [memory.device for memory in memories]

    def run(self) -> None:
        """See `PackedPass.run`. The first GPU's current stream waits for what the others do."""
        follow(self._devices)
        first, inputs = self._passes[0], []
        for rank, (own, memory, device) in enumerate(zip(self._passes, self._memories, self._devices, strict=True)):
            with device_guard(device):
                if rank:
                    memory.copy_(self._all_reduce.broadcast(rank, self._memories[0]))
                    own.state.last.copy_(self._all_reduce.broadcast(rank, first.state.last))
                inputs.append(own.begin())
        run_halves([own.halves for own in self._passes], inputs, self._devices, self._all_reduce)
        first.end(inputs[0])
        join(self._devices)


def embed_tokens(fields: Fields, last: Tensor, table: Tensor) -> Tensor:
    """The embeddings [rows, hidden] of the rows' tokens: those given, or the newest of a slot, -1 read as 0."""
    if table.device.type != "cpu":
        from kernels.server.execution.embed_triton import embed_rows

        return embed_rows(fields.given, fields.source, last, table)
    ids = torch.where(fields.source >= 0, last[fields.source.clamp_min(0)].clamp_min(0), fields.given)
    return F.embedding(ids, table)


def sample_tokens(logits: Tensor, fields: Fields, out: Tensor, last: Tensor) -> None:
    """Ids of logits [sampled, vocab] into out [sampled] int64 and last[fields.target], greedy at temperature 0:
    by two kernels on a GPU, without waiting, on a CPU by numpy one by one.
    """
    if logits.device.type != "cpu":
        from kernels.server.execution.sampling_triton import draw_rows

        draw_rows(logits, fields, out, last)
        return
    out.copy_(_sample_on_cpu(logits, fields))
    last.index_copy_(0, fields.target, out)


def _sample_on_cpu(logits: Tensor, fields: Fields) -> Tensor:
    if not bool(fields.temperature.any()):
        return logits.argmax(dim=-1)
    settings = (fields.temperature, fields.top_k, fields.top_p, fields.seed, fields.stream)
    rows = zip(logits.float().numpy(), *(value.tolist() for value in (*settings, fields.place)), strict=True)
    ids = [sample_token(row, _sampling(*how), place) for row, *how, place in rows]
    return torch.tensor(ids, dtype=torch.int64)


def _sampling(temperature: float, top_k: int, top_p: float, seed: int, stream: int) -> Sampling:
    """The row's settings. Top-p of greedy rows does not matter; float32 lowers the least temperature."""
    if not temperature:
        return Sampling(0.0, top_k, 1.0, seed % (1 << 64), stream)
    return Sampling(max(temperature, TEMPERATURES[0]), top_k, top_p, seed % (1 << 64), stream)


def paged_attention(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: Tensor,
    tables: Tensor,
    *,
    shape: LayerShape,
    sinks: Tensor | None = None,
    **scales: Tensor,
) -> Tensor:
    """o like q [batch, queries, heads, head_dim]; the last query of sequence b sees the first lengths[b] keys, each
    query before it one less. Keys and values [pages, page_size, kv_heads, head_dim], tables [batch, pages of a
    sequence], sinks [heads]; of pages in fp8 k_scale and v_scale [kv_heads]. A query that sees no key gives zeros.
    """
    queries, capacity = q.shape[1], tables.shape[1] * keys.shape[1]
    longest = capacity if q.device.type != "cpu" else max(1, int(lengths.max()))  # a GPU must not wait for the host
    used = tables[:, : -(-longest // keys.shape[1])].long()
    k, v = (
        _widened(each[used].flatten(1, 2)[:, :longest], scale, q.dtype).transpose(1, 2)
        for each, scale in ((keys, scales.get("k_scale")), (values, scales.get("v_scale")))
    )
    key = torch.arange(longest, device=q.device)
    last = lengths.long()[:, None] - queries + torch.arange(queries, device=q.device)
    seen = key <= last[:, :, None]
    if shape.window is not None:
        seen &= key > last[:, :, None] - shape.window
    blind = last < 0
    mask = (seen | blind[:, :, None])[:, None]
    o = masked_attention(q.transpose(1, 2), k, v, mask, shape, sinks)
    return o.transpose(1, 2).masked_fill(blind[:, :, None, None], 0)


def _widened(rows: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    """rows [..., kv_heads, head_dim] of fp8 times their scales; others as they are."""
    return rows if scale is None else (rows.float() * scale[:, None]).to(dtype)
