"""One forward pass of the compact decoder out of a plan's variants: a whole prompt, or one decode step.

    embed ─► ┌─ [norm · QKV + bias] ─► [rope, append, attention] ─► [O + residual] ─┐ ─► norm ─► head, argmax
             └─ [norm · gate_up, SwiGLU] ─► [down + residual] ◄─────────────────────┘
                                     once a layer

Brackets mark fusions. Where the plan has no variant for a fusion, its ops run one after the other, each by the variant
that the plan has for it, or torch's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.dtypes import DTYPE_NAMES
from kernels.model import decoder
from kernels.model.bound_variants import BoundVariants
from kernels.model.head import Head
from kernels.model.layer_cases import attention_case, default_scale, fits_step, rope_case, step_case, step_weights
from kernels.model.layer_weights import Weights
from kernels.model.products import Rows, Stream, added_product, mlp_half, normed_product
from kernels.model.state import State


@dataclass
class LayerInput:
    """What each half of a layer takes: the residual stream, which the half changes; the positions of the tokens, with
    the angles of each table (None where no op asks for them); and the index [1] of the last token before the padding
    (None: there is no padding).
    """

    stream: Stream
    positions: list[decoder.Positions] | None
    last: Tensor | None


Half = Callable[[LayerInput], None]
"""Half of a layer, attention or MLP: it ends with a product that joins the residual stream."""


class Pass:
    """A pass over `queries` tokens of each row. `run` works on fixed buffers and can be captured.

    More than one query is a prompt, which begins at position 0. Unless the pass is `whole`, only the last token of each
    row continues after the last attention; the others only provide keys and values.

    With a `rank` the model is that rank's shard of a sharded one. Each of its `halves` then leaves a partial sum in the
    stream's `delta`, and the caller adds those of all ranks to the stream; the first rank alone has a head.
    """

    def __init__(
        self,
        model: decoder.Decoder,
        variants: BoundVariants,
        state: State,
        queries: int,
        *,
        whole: bool = True,
        rank: int | None = None,
    ) -> None:
        self.model, self.variants, self.state, self.queries, self.whole = model, variants, state, queries, whole
        self.dtype = DTYPE_NAMES[model.embedding.dtype]
        self._partial = rank is not None
        self._rows = Rows(variants, state.batch * queries, self.dtype, model.eps)
        self._last = Rows(variants, state.batch, self.dtype, model.eps)
        self._rotates = False
        self._prompt_at = torch.arange(queries, device=state.position.device)
        self.halves = [half for index in range(len(model.layers)) for half in self._layer(index)]
        if not rank:
            self.head = Head(model, variants, state, self._last, queries)

    def run(self, ids: Tensor, length: Tensor | None = None) -> Tensor:
        """Reads ids [b, queries] from the state's position on and writes the greedy next ids into its token.

        A single query takes its embedding from the state's `stream`, if it has one. `length` [1] int64 is the number of
        ids before the padding (None: all). Advances the position. Returns the residual stream after the last layer: [b
        · queries, hidden], or [b, hidden] of the last tokens unless the pass is whole.
        """
        given = self.begin(ids, length)
        for half in self.halves:
            half(given)
        return self.end(given, length)

    def begin(self, ids: Tensor, length: Tensor | None) -> LayerInput:
        """What `run` does before the layers."""
        hidden_states = self.state.stream if self.queries == 1 else None
        if hidden_states is None:
            hidden_states = F.embedding(ids, self.model.embedding).view(self._rows.m, -1)
        stream = Stream(hidden_states)
        positions = self._positions() if self._rotates else None
        return LayerInput(stream, positions, None if length is None else length - 1)

    def end(self, inputs: LayerInput, length: Tensor | None) -> Tensor:
        """What `run` does after the layers."""
        x = inputs.stream.summed()
        self.head.run(self._ends(x, inputs.last) if self.whole else x, length)
        return x

    def _positions(self) -> list[decoder.Positions]:
        state = self.state
        if self.queries == 1:
            at, tables = state.position, (state.cos[state.position], state.sin[state.position])
        else:
            at, tables = self._prompt_at, (state.cos[: self.queries], state.sin[: self.queries])
        each = zip(*(table.split(self.model.shapes[0].head_dim, dim=-1) for table in tables), strict=True)
        return [
            decoder.Positions(at, *(table.contiguous().expand(state.batch, -1, -1) for table in angles))
            for angles in each
        ]

    def _ends(self, x: Tensor, last: Tensor | None) -> Tensor:
        """The rows [b, hidden] of the last tokens among x [b · queries, hidden]; `last` [1] is their index."""
        rows = x.view(self.state.batch, self.queries, -1)
        return (rows[:, -1] if last is None else rows.index_select(1, last)[:, 0]).contiguous()

    def _layer(self, index: int) -> tuple[Half, Half]:
        w, shape = self.model.layers[index], self.model.shapes[index]
        cut = not self.whole and index == len(self.model.layers) - 1
        rows = self._last if cut else self._rows
        qkv = normed_product(self._rows, w.input_norm, w.qkv[0], w.qkv_bias[0])
        attend = self._attention(w, shape, *self.state.cache[index])
        out = added_product(rows, w.o, w.o_bias, self._partial, w.attention_norm)
        transform = mlp_half(rows, w, self._partial)

        def attention(inputs: LayerInput) -> None:
            stream = inputs.stream
            y = attend(qkv(stream), inputs.positions[shape.rope] if inputs.positions else None)
            if cut:
                y, stream.x = self._ends(y, inputs.last), self._ends(stream.summed(), inputs.last)
            out(y, stream)

        def mlp(inputs: LayerInput) -> None:
            transform(inputs.stream)

        return attention, mlp

    def _attention(
        self, w: Weights, shape: decoder.LayerShape, keys: Tensor, values: Tensor
    ) -> Callable[[Tensor, decoder.Positions | None], Tensor]:
        """qkv [m, (heads + 2 · kv_heads) · head_dim] ↦ o [m, heads · head_dim]; k and v go into the cache."""
        step = self._step(w, shape, keys, values)
        if step is not None:
            return step
        rotate, attend = self._rope(w, shape, keys, values), self._attend(w.sinks, shape, keys, values)
        count = [shape.heads, shape.kv_heads, shape.kv_heads]
        self._rotates = True

        def run(qkv: Tensor, positions: decoder.Positions | None) -> Tensor:
            assert positions is not None
            heads = qkv.view(self.state.batch, self.queries, -1, shape.head_dim)
            q, k, v = heads.split(count, dim=2)
            return attend(rotate(q, k, v, positions)).reshape(self._rows.m, -1)

        return run

    def _step(
        self, w: Weights, shape: decoder.LayerShape, keys: Tensor, values: Tensor
    ) -> Callable[[Tensor, decoder.Positions | None], Tensor] | None:
        """The planned variant that does a whole decode step of attention; None if the plan has none."""
        if self.queries > 1 or not fits_step(w, shape):
            return None
        planned = self.variants.planned(step_case(w, shape, self.state.batch, self.state.capacity, self.dtype))
        if planned is None:
            return None
        function, state, weights = planned.function, self.state, step_weights(w)
        return lambda qkv, positions: function(qkv, state.cos, state.sin, keys, values, state.position, **weights)

    def _rope(
        self, w: Weights, shape: decoder.LayerShape, keys: Tensor, values: Tensor
    ) -> Callable[[Tensor, Tensor, Tensor, decoder.Positions], Tensor]:
        """(q, k, v, positions) ↦ rotated q. Writes the rotated k, and v, into the cache."""
        appending = self.variants.planned(rope_case(shape, self.state.batch, self.queries, self.dtype))
        alone = rope_case(shape, self.state.batch, self.queries, self.dtype, append=False)
        rotating = self.variants.bound(alone).function if appending is None else None

        def rotate(q: Tensor, k: Tensor, v: Tensor, positions: decoder.Positions) -> Tensor:
            if w.q_norm is not None and w.k_norm is not None:
                q, k = self._rows.head_norm(q, w.q_norm), self._rows.head_norm(k, w.k_norm)
            if appending is not None:
                rotated: Tensor = appending.function(
                    q, k, v, positions.cos, positions.sin, keys, values, self.state.position
                )
                return rotated
            assert rotating is not None
            q, k = rotating(q.contiguous(), k.contiguous(), positions.cos, positions.sin)
            keys.index_copy_(1, positions.at, k)
            values.index_copy_(1, positions.at, v)
            return q

        return rotate

    def _attend(
        self, sinks: Tensor | None, shape: decoder.LayerShape, keys: Tensor, values: Tensor
    ) -> Callable[[Tensor], Tensor]:
        """Rotated q ↦ o: over the prompt's own keys in the cache or, in a step, over all keys so far."""
        length = self.state.capacity if self.queries == 1 else self.queries
        kind: Literal["decode", "prefill"] = "decode" if self.queries == 1 else "prefill"
        case = attention_case(shape, kind, self.state.batch, self.queries, length, self.dtype)
        planned = self.variants.planned(case) if default_scale(shape) else None
        position, more = self.state.position, {} if sinks is None else {"sinks": sinks}
        if self.queries == 1:
            if planned is None or not planned.variant.device_lengths:
                return lambda q: decoder.decode_attention(q, keys, values, position, shape, sinks)
            decode = planned.function
            return lambda q: decode(q, keys, values, position=position, **more)
        k, v = keys[:, : self.queries], values[:, : self.queries]
        if planned is None:
            return lambda q: decoder.prefill_attention(q, k, v, shape, sinks)
        function = planned.function
        return lambda q: function(q, k, v, **more)
