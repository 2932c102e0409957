"""One forward pass of the compact decoder out of a plan's variants: a whole prompt, or one decode step.

    embed ─► ┌─ [norm · QKV + bias] ─► [rope, append, attention] ─► [O + residual] ─┐ ─► norm ─► head, argmax
             └─ [norm · gate_up, SwiGLU] ─► [down + residual] ◄─────────────────────┘
                                     once a layer

Where the plan has no variant for what stands in brackets, its pieces run one after the other, each by the variant that
the plan has for it, or torch's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.engine import decoder
from kernels.engine.loading import DTYPE_NAMES
from kernels.engine.parts import Parts
from kernels.engine.products import Rows, Stream, added_product, gated_product, normed_product
from kernels.ops import AttentionCase, LmHeadCase, RmsNormCase, RopeCase, StepAttentionCase

USUAL_SCALE_ERROR = 1e-6


@dataclass(frozen=True)
class State:
    """What passes of one session share. `position` [1] int64 is that of the next token to be read; `token` [b, 1]."""

    batch: int
    capacity: int
    cos: Tensor
    sin: Tensor
    cache: list[tuple[Tensor, Tensor]]
    position: Tensor
    token: Tensor


class Pass:
    """A pass over `queries` tokens of each row; `run` is made of calls on fixed buffers, ready to be captured."""

    def __init__(self, model: decoder.Decoder, parts: Parts, state: State, queries: int) -> None:
        self.model, self.parts, self.state, self.queries = model, parts, state, queries
        self.dtype = DTYPE_NAMES[model.embedding.dtype]
        self._rows = Rows(parts, state.batch * queries, self.dtype, model.eps)
        self._layers = [self._layer(index) for index in range(len(model.layers))]
        self._last = Rows(parts, state.batch, self.dtype, model.eps)
        vocab, hidden = model.lm_head.shape
        case = LmHeadCase(m=state.batch, vocab=vocab, k=hidden, dtype=self.dtype, weights=self.dtype)
        self._head = parts.part(case)
        self._head_weight = parts.pack(self._head, model.lm_head)

    def run(self, ids: Tensor, length: Tensor | None = None) -> Tensor:
        """Reads ids [b, queries] from the state's position on and writes the greedy next ids into its token.

        `length` [1] int64 is how many of the ids count (None: all); the others stand to the right of them. Moves the
        position on, and returns the residual stream after the last layer, [b · queries, hidden].
        """
        stream = Stream(F.embedding(ids, self.model.embedding).view(self._rows.m, -1))
        for layer in self._layers:
            layer(stream)
        x = stream.settled()
        last = x.view(self.state.batch, self.queries, -1)
        last = last[:, -1] if length is None else last.index_select(1, length - 1)[:, 0]
        found = self._head.function(self._last.norm(Stream(last.contiguous()), self.model.norm), self._head_weight)
        self.state.token.copy_(found[:, None])
        self.state.position.add_(self.queries if length is None else length)
        return x

    def logits(self, x: Tensor) -> Tensor:
        """Logits [..., vocab] of a residual stream [..., hidden], with the head's weight as the plan holds it."""
        hidden = decoder.rms_norm(x, self.model.norm, self.model.eps)
        return F.linear(hidden, self.parts.held(self._head, self.model.lm_head, hidden))

    def _layer(self, index: int) -> Callable[[Stream], None]:
        w, shape = self.model.layers[index], self.model.shapes[index]
        qkv = normed_product(self._rows, w.input_norm, w.qkv[0], w.qkv_bias[0])
        attend = self._attention(w, shape, *self.state.cache[index])
        out = added_product(self._rows, w.o, w.o_bias)
        gate_up = gated_product(self._rows, w.post_norm, w.gate_up[0], w.gate_up_bias[0])
        down = added_product(self._rows, w.down, w.down_bias)

        def run(stream: Stream) -> None:
            out(attend(qkv(stream)), stream)
            down(gate_up(stream), stream)

        return run

    def _attention(
        self, w: decoder.Weights, shape: decoder.Shape, keys: Tensor, values: Tensor
    ) -> Callable[[Tensor], Tensor]:
        """qkv [m, (heads + 2 · kv_heads) · head_dim] ↦ o [m, heads · head_dim]; k and v go into the cache."""
        step = self._step(w, shape, keys, values)
        if step is not None:
            return step
        turn, attend = self._rope(w, shape, keys, values), self._attend(shape, keys, values)
        count = [shape.heads, shape.kv_heads, shape.kv_heads]

        def run(qkv: Tensor) -> Tensor:
            heads = qkv.view(self.state.batch, self.queries, -1, shape.head_dim)
            q, k, v = heads.split(count, dim=2)
            at = self._positions()
            q, k = turn(q, k, v, at)
            return attend(q, k, v).reshape(self._rows.m, -1)

        return run

    def _step(
        self, w: decoder.Weights, shape: decoder.Shape, keys: Tensor, values: Tensor
    ) -> Callable[[Tensor], Tensor] | None:
        """The planned variant that does all of it for one token; None where there is none."""
        if self.queries > 1 or w.q_norm is not None or not _usual_scale(shape):
            return None
        case = StepAttentionCase(
            batch=self.state.batch,
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            kv_len=self.state.capacity,
            window=shape.window_within(self.state.capacity),
            dtype=self.dtype,
        )
        found = self.parts.planned(case)
        if found is None:
            return None
        function, state = found.function, self.state
        return lambda qkv: function(qkv, state.cos, state.sin, keys, values, state.position)

    def _positions(self) -> Tensor:
        if self.queries == 1:
            return self.state.position
        return torch.arange(self.queries, device=self.state.position.device) + self.state.position

    def _rope(self, w: decoder.Weights, shape: decoder.Shape, keys: Tensor, values: Tensor) -> Callable[..., Any]:
        """(q, k, v, positions) ↦ (q, k) rotated; k and v lie in the cache afterwards."""
        case = RopeCase(
            batch=self.state.batch,
            q_len=self.queries,
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            append=True,
            dtype=self.dtype,
        )
        appending = self.parts.planned(case)
        rotate = self.parts.part(case.model_copy(update={"append": False})).function if appending is None else None

        def turn(q: Tensor, k: Tensor, v: Tensor, at: Tensor) -> Any:
            if w.q_norm is not None and w.k_norm is not None:
                q, k = self._head_norm(q, w.q_norm), self._head_norm(k, w.k_norm)
            cos, sin = (table[at].expand(self.state.batch, -1, -1) for table in (self.state.cos, self.state.sin))
            if appending is not None:
                q = appending.function(q, k, v, cos, sin, keys, values, self.state.position)
                return q, keys[:, : self.queries]
            assert rotate is not None
            q, k = rotate(q.contiguous(), k.contiguous(), cos, sin)
            keys.index_copy_(1, at, k)
            values.index_copy_(1, at, v)
            return q, k

        return turn

    def _head_norm(self, x: Tensor, weight: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        case = RmsNormCase(m=len(rows), n=rows.shape[1], dtype=self.dtype)
        return self.parts.part(case).function(rows, weight, eps=self._rows.eps).view(x.shape)

    def _attend(self, shape: decoder.Shape, keys: Tensor, values: Tensor) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """(q, k, v) of this pass ↦ o: the prompt's own keys for a prompt from position 0, the cache for a step."""
        length = self.state.capacity if self.queries == 1 else self.queries
        case = AttentionCase(
            kind="decode" if self.queries == 1 else "prefill",
            head_dim=shape.head_dim,
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            batch=self.state.batch,
            q_len=self.queries,
            kv_len=length,
            dtype=self.dtype,
            kv_dtype=self.dtype,
            window=shape.window_within(length),
        )
        found = self.parts.planned(case) if _usual_scale(shape) else None
        position = self.state.position
        if self.queries == 1:
            if found is None or not found.variant.device_lengths:
                return lambda q, k, v: decoder.decode_attention(q, keys, values, position, shape.scaling, shape.window)
            decode = found.function
            return lambda q, k, v: decode(q, keys, values, position=position)
        if found is None:
            return lambda q, k, v: decoder.prefill_attention(q, k, v, shape.scaling, shape.window)
        function = found.function
        return lambda q, k, v: function(q, k.contiguous(), v.contiguous())


def _usual_scale(shape: decoder.Shape) -> bool:
    """Whether scores are scaled by 1 / √head_dim, as every variant does."""
    return abs(shape.scaling * shape.head_dim**0.5 - 1) < USUAL_SCALE_ERROR
