"""A compact decoder over the weights of a transformers model of the Llama family or one near it (dense_families.py),
and of mixtures of experts of Qwen3, Mixtral and OLMoE.

A pass calls three functions: `embed`, `layer` (once per layer) and `head`. A layer does not add its last output to the
residual stream. It returns it as `delta`, and the next layer adds it, so that the addition fuses with that layer's norm
even though each layer is compiled separately. One compilation serves all layers. Linear and attention are arguments: a
plan's variants can replace them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.model.dense_families import (
    DENSE_TYPES,
    GATES,
    LONG_ROPE,
    NOPE,
    STATIC_ROPES,
    TWO_ROPES,
    WINDOWED,
    activation,
    head_size,
    multipliers,
    rotary_order,
)
from kernels.model.experts import MODEL_TYPES as SPARSE_TYPES
from kernels.model.experts import Experts, is_sparse, swiglu, torch_experts
from kernels.model.layer_weights import Dense, Weights, norm_of, weights_of

MODEL_TYPES = (*DENSE_TYPES, *SPARSE_TYPES)
PADDED_TO = 256
"""Long prompts are padded to a multiple of this."""

Linear = Callable[..., Tensor]
"""f(x [..., k], w [n, k], bias [n] | None) -> [..., n]"""
Attention = Callable[[Tensor, Tensor, Tensor], Tensor | None]
"""f(q [b, q, h, d], k, v [b, q, kv_h, d]) -> [b, q, h, d], causal; None leaves the case to torch."""


@dataclass(frozen=True)
class LayerShape:
    """The sizes that a layer needs beside its weights; they are constants of its compilation."""

    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    scaling: float
    window: int | None = None
    softcap: float | None = None
    """Scores are softcap · tanh(score / softcap)."""
    rope: int = 0
    """Which half of a table of angles it takes, where that has two."""
    sinks: bool = False

    def angles(self, table: Tensor) -> Tensor:
        """The layer's columns of a table of angles [..., head_dim], or of two side by side."""
        return table[..., self.rope * self.head_dim : (self.rope + 1) * self.head_dim]

    def window_within(self, length: int) -> int | None:
        """The window, or None where sequences of this length fit into it."""
        return self.window if self.window is not None and self.window < length else None


def refusal(model: Any) -> str | None:
    """Why this decoder cannot run the transformers model, or None."""
    config = model.config
    if config.model_type not in MODEL_TYPES:
        return f"model_type {config.model_type!r} is not one of {', '.join(MODEL_TYPES)}"
    if not hasattr(model, "lm_head"):
        return f"{type(model).__name__} has no lm_head"
    if (gate := activation(config.to_dict())) not in GATES:
        return f"hidden_act {gate!r} is not one of {', '.join(GATES)}"
    if getattr(config, "use_bidirectional_attention", None):
        return "use_bidirectional_attention: tokens attend to later ones"
    rotary, order = model.model.rotary_emb, rotary_order(config.to_dict())
    kinds = rotary.rope_type if isinstance(rotary.rope_type, dict) else {"": rotary.rope_type}
    for kind, rope_type in kinds.items():
        if rope_type not in (*STATIC_ROPES, LONG_ROPE):
            return f"rope_type {rope_type!r} depends on the length"
        full_rotary = 2 * getattr(rotary, f"{kind}_inv_freq".lstrip("_")).numel() == head_size(config.to_dict())
        if not full_rotary and (order is None or hasattr(model.model.layers[0].self_attn, "q_norm")):
            return "only a part of each head is rotated"
    if (switch := rope_switch(config)) is not None and switch % PADDED_TO:
        return f"original_max_position_embeddings {switch} is no multiple of {PADDED_TO}, to which prompts are padded"
    if getattr(config, "clip_qkv", None) is not None:
        return f"clip_qkv {config.clip_qkv} limits q, k and v"
    if len({is_sparse(layer) for layer in model.model.layers}) > 1:
        return "some layers have experts and others none (mlp_only_layers, decoder_sparse_step)"
    try:
        multipliers(config.to_dict())
    except ValueError as error:
        return str(error)
    return None


class Decoder:
    """Weights and shapes for `embed`, `layer` and `head`, taken from a transformers model without a copy, but for an
    embedding that the family multiplies.

    q, k and v are joined, and gate and up: the parameters of the transformers model become views of the joined
    matrices. It still works, and no weight is stored twice. With `pack` the joined matrices are the weights of a layer,
    otherwise their parts.
    """

    def __init__(self, model: Any, pack: bool = True) -> None:
        reason = refusal(model)
        if reason:
            raise ValueError(f"the compact decoder cannot run this model: {reason}")
        config, core = model.config, model.model
        by = multipliers(config.to_dict())
        self.embedding: Tensor = scale_embedding(core.embed_tokens, by.embedding)
        norm = norm_of(config, core, "norm")
        assert norm is not None
        self.norm: Tensor = norm if by.logits == 1 else norm * by.logits
        self.lm_head: Tensor = model.lm_head.weight
        self.rotary = core.rotary_emb
        self.layers = [weights_of(config, layer, pack) for layer in core.layers]
        self.shapes = [layer_shape(config, layer) for layer in core.layers]
        self.eps: float = by.eps
        self.logit_cap, self._rope_switch = by.logit_cap, rope_switch(config)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., vocab] of normed hidden states [..., hidden]."""
        return softcap(F.linear(hidden, self.lm_head), self.logit_cap)

    def rope_table(self, length: int) -> tuple[Tensor, Tensor]:
        """cos and sin [length, head_dim] of the positions below `length`, as transformers rounds them. Where some
        layers have angles of their own, or rotate nothing, these are the second half of [length, 2 · head_dim].
        """
        return angles(self.rotary, length, self.embedding[:1])

    def rotates_alike(self, length: int, capacity: int) -> bool:
        """Whether a sequence of this length has the angles of `rope_table(capacity)`."""
        return self._rope_switch is None or (length > self._rope_switch) == (capacity > self._rope_switch)

    @property
    def tiled(self) -> bool:
        """Whether it has experts, and these are tiles."""
        return isinstance(mlp := self.layers[0].mlp, Experts) and mlp.tiled

    def cache(self, batch: int, length: int) -> list[tuple[Tensor, Tensor]]:
        """Zeroed keys and values [batch, length, kv_heads, head_dim] per layer."""
        make = self.embedding.new_zeros
        return [
            (make(batch, length, s.kv_heads, s.head_dim), make(batch, length, s.kv_heads, s.head_dim))
            for s in self.shapes
        ]


def scale_embedding(module: Any, by: float) -> Tensor:
    """The table times a factor; all decoders of a model share it."""
    weight: Tensor = module.weight.detach()
    if by == 1:
        return module.weight  # type: ignore[no-any-return]
    if not isinstance(getattr(module, "multiplied", None), Tensor):
        scale = getattr(module, "embed_scale", None)  # which transformers rounds
        module.multiplied = (weight.float() * by).to(weight.dtype) if scale is None else weight * scale.to(weight.dtype)
    return module.multiplied  # type: ignore[no-any-return]


@torch.no_grad()
def angles(rotary: Any, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """`Decoder.rope_table` of a rotary embedding, in the dtype and on the device of `like`."""
    positions = torch.arange(length, device=like.device)[None]
    kinds: list[tuple[str, ...]] = [()]
    if isinstance(rotary.rope_type, dict):  # where all layers are alike both tables are theirs
        kinds = [(kind,) for kind in (min(rotary.rope_type), max(rotary.rope_type))]
    config, tables = rotary.config, [rotary(like, positions, *kind) for kind in kinds]
    frequencies = getattr(rotary, "inv_freq", None)
    if frequencies is not None and tables[0][0].shape[-1] == frequencies.numel():  # gpt-oss has each angle once
        tables = [(torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)) for cos, sin in tables]
    size = head_size(config.to_dict())
    if config.model_type in NOPE:
        tables.append((like.new_empty(1, length, 0), like.new_empty(1, length, 0)))
    cos, sin = (
        [_widen(table, size, rest) for table in each]
        for each, rest in zip(zip(*tables, strict=True), (1.0, 0.0), strict=True)
    )
    return torch.cat(cos, dim=-1)[0].contiguous(), torch.cat(sin, dim=-1)[0].contiguous()


def _widen(table: Tensor, size: int, rest: float) -> Tensor:
    """Angles [..., rotated] of whole heads [..., size]: the elements that are not rotated have cos 1 and sin 0."""
    halves = table.chunk(2, dim=-1)
    return torch.cat([F.pad(half, (0, size // 2 - half.shape[-1]), value=rest) for half in halves], dim=-1)


def rope_switch(config: Any) -> int | None:
    """The length beyond which a sequence has other angles, None where it never has."""
    rope = getattr(config, "rope_parameters", None) or {}
    return rope["original_max_position_embeddings"] if rope.get("rope_type") == LONG_ROPE else None


def layer_shape(config: Any, layer: Any) -> LayerShape:
    """The sizes of a layer of a transformers model."""
    attention, by = layer.self_attn, multipliers(config.to_dict())
    windowed = config.model_type in WINDOWED
    window = getattr(config, "sliding_window", None) if windowed else None
    window = getattr(attention, "sliding_window", window) if getattr(attention, "is_sliding", True) else None
    hybrid = config.model_type == "exaone4" and config.sliding_window is not None
    rotates = getattr(attention, "use_rope", not hybrid or window is not None)
    return LayerShape(
        rope=int(not rotates or (config.model_type in TWO_ROPES and window is not None)),
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=attention.head_dim,
        eps=by.eps,
        scaling=attention.scaling,
        window=window,
        softcap=by.score_cap,
        sinks=hasattr(attention, "sinks"),
    )


def softcap(x: Tensor, cap: float | None) -> Tensor:
    """cap · tanh(x / cap) in float32, so that no two numbers of a lower precision become equal; x where cap is None."""
    return x if cap is None else cap * torch.tanh(x.float() / cap)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x [..., n] / rms(x) · weight, in float32, rounded before the weight as transformers does."""
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


def head_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x [..., heads, head_dim], normed over as many elements as the weight has: a head's, or all heads'."""
    return rms_norm(x.reshape(*x.shape[:2], -1, len(weight)), weight, eps).view(x.shape)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of x [b, q, h, d] by cos and sin [q, d] (half-split layout)."""
    first, second = x.chunk(2, dim=-1)
    return x * cos[:, None] + torch.cat((-second, first), dim=-1) * sin[:, None]


def prefill_attention(q: Tensor, k: Tensor, v: Tensor, shape: LayerShape, sinks: Tensor | None = None) -> Tensor:
    """Causal attention of a whole prompt, torch's own; the layouts of `Attention`, `sinks` [h]."""
    mask, window = None, shape.window_within(q.shape[1])
    if window is not None or shape.softcap is not None or sinks is not None:
        at = torch.arange(q.shape[1], device=q.device)
        mask = ((at[:, None] >= at) & (at[:, None] - at < (window or q.shape[1])))[None, None]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return masked_attention(q, k, v, mask, shape, sinks).transpose(1, 2)


def masked_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, shape: LayerShape, sinks: Tensor | None = None
) -> Tensor:
    """Attention of q [b, h, q, d] over k, v [b, kv_h, length, d] by torch's own ops. mask [b, 1, q, length] bool is
    what a query sees; None: causal, without a soft cap and without `sinks` [h].
    """
    if shape.softcap is None or mask is None:
        if sinks is not None and mask is not None:
            k, v, mask = _with_sinks(k, v, mask, sinks)
        grouped = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None, scale=shape.scaling, enable_gqa=grouped
        )
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scores = softcap(q @ k.transpose(-1, -2) * shape.scaling, shape.softcap)
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1).to(v.dtype) @ v


def _with_sinks(k: Tensor, v: Tensor, seen: Tensor, sinks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """k and v [b, kv_h, length, d] with one more key, all zeros, and the mask [b, h, q, length + 1] that adds to `seen`
    [b, 1, q, length] each head's sink [h] as the score of this key.
    """
    zeros = torch.zeros_like(seen, dtype=k.dtype).masked_fill(~seen, float("-inf"))
    sizes = len(seen), len(sinks), seen.shape[2], -1
    mask = torch.cat((zeros.expand(sizes), sinks.to(k.dtype)[:, None, None].expand(*sizes[:3], 1)), dim=-1)
    return F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1)), mask


def decode_attention(
    q: Tensor, k: Tensor, v: Tensor, position: Tensor, shape: LayerShape, sinks: Tensor | None = None
) -> Tensor:
    """Attention of one query q [b, 1, h, d] over the first position + 1 keys of k, v [b, length, kv_h, d], with `sinks`
    [h]: over the whole cache, which compiles into two memory-bound kernels.
    """
    batch, _, heads, head_dim = q.shape
    length, kv_heads, window = k.shape[1], k.shape[2], shape.window
    grouped = q.view(batch, kv_heads, heads // kv_heads, 1, head_dim).float()
    k, v = (x.transpose(1, 2)[:, :, None].float() for x in (k, v))  # [b, kv_h, 1, length, d]
    scores = softcap((grouped * k).sum(-1) * shape.scaling, shape.softcap)  # [b, kv_h, group, length]
    at = torch.arange(length, device=q.device)
    seen = at <= position
    if window is not None and window < length:
        seen = seen & (at > position - window)
    scores = scores.masked_fill(~seen, float("-inf"))
    if sinks is not None:
        sink_scores = sinks.float().view(kv_heads, heads // kv_heads, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, sink_scores), dim=-1)
    probabilities = torch.softmax(scores, dim=-1)[..., :length]
    out = (probabilities[..., None] * v).sum(-2)  # [b, kv_h, group, d]
    return out.to(q.dtype).view(batch, 1, heads, head_dim)


def project(x: Tensor, matrices: tuple[Tensor, ...], biases: tuple[Tensor | None, ...], linear: Linear) -> Tensor:
    """x times packed or separate matrices, side by side in the last dimension."""
    parts = [linear(x, matrix, bias) for matrix, bias in zip(matrices, biases, strict=True)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


class Positions(NamedTuple):
    """A pass's places: `at` [q] int64, and their cos and sin, [q, head_dim] or [b, q, head_dim]."""

    at: Tensor
    cos: Tensor
    sin: Tensor


def embed(ids: Tensor, position: Tensor, table: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Positions]:
    """delta, residual and positions as the first layer takes them, for ids [b, q] from `position` [1] on."""
    x = F.embedding(ids, table)
    positions = torch.arange(ids.shape[1], device=ids.device) + position
    return x, torch.zeros_like(x), Positions(positions, cos[positions], sin[positions])


def layer(
    delta: Tensor,
    residual: Tensor,
    positions: Positions,
    cache: tuple[Tensor, Tensor],
    w: Weights,
    shape: LayerShape,
    linear: Linear,
    attention: Attention | None,
) -> tuple[Tensor, Tensor]:
    """One layer over delta and residual [b, q, hidden]; appends to the cache, keys and values [b, length, kv_h, d], in
    place.

    q > 1 is a prompt from position 0, q = 1 a decode step at `positions.at` [1]. `attention` replaces torch's for
    prompts. Returns the new (delta, residual).
    """
    batch, queries, _ = delta.shape
    keys, values = cache
    residual = residual + delta
    qkv = project(_normed(residual, w.input_norm, shape.eps), w.qkv, w.qkv_bias, linear)
    heads = qkv.view(batch, queries, -1, shape.head_dim)
    q, k, v = heads.split([shape.heads, shape.kv_heads, shape.kv_heads], dim=2)
    if w.q_norm is not None and w.k_norm is not None:
        q, k = head_norm(q, w.q_norm, shape.eps), head_norm(k, w.k_norm, shape.eps)
    cos, sin = shape.angles(positions.cos), shape.angles(positions.sin)
    q, k = rotate(q, cos, sin), rotate(k, cos, sin)
    keys.index_copy_(1, positions.at, k)
    values.index_copy_(1, positions.at, v)
    if queries == 1:
        out = decode_attention(q, keys, values, positions.at, shape, w.sinks)
    else:
        plain = shape.window is None and shape.softcap is None and w.sinks is None
        attended = attention(q, k, v) if attention is not None and plain else None
        out = attended if attended is not None else prefill_attention(q, k, v, shape, w.sinks)
    residual = residual + _normed(linear(out.reshape(batch, queries, -1), w.o, w.o_bias), w.attention_norm, shape.eps)
    return _normed(mlp(_normed(residual, w.post_norm, shape.eps), w.mlp, linear), w.mlp_norm, shape.eps), residual


def _normed(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """`rms_norm`, of a family that has this norm."""
    return x if weight is None else rms_norm(x, weight, eps)


def mlp(x: Tensor, w: Dense | Experts, linear: Linear) -> Tensor:
    """The MLP of x [b, q, hidden]; of a layer of experts, by torch's own products."""
    if isinstance(w, Experts):
        return torch_experts(x.flatten(0, 1), w).view(x.shape)
    gate_up = project(x, w.gate_up, w.gate_up_bias, linear)
    if w.activation == "silu":
        return linear(swiglu(gate_up), w.down, w.down_bias)
    gate, up = gate_up.chunk(2, dim=-1)
    return linear(F.gelu(gate, approximate="tanh") * up, w.down, w.down_bias)


def finish(
    delta: Tensor, residual: Tensor, norm: Tensor, lm_head: Tensor, token: Tensor, position: Tensor, eps: float
) -> Tensor:
    """Writes greedy next ids into token [b, 1], moves position on; returns normed hidden states [b, q, hidden]."""
    hidden = rms_norm(residual + delta, norm, eps)
    token.copy_(F.linear(hidden[:, -1], lm_head).argmax(-1, keepdim=True))
    position.add_(delta.shape[1])
    return hidden
