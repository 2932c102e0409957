"""The weights of one layer of the compact decoder, taken from a transformers model without a copy."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from kernels.model.dense_families import GATES, GEMMAS, activation, head_size, rotary_order
from kernels.model.experts import Experts, experts_of, is_sparse
from kernels.quant.quantised_matrix import (
    STORED,
    STORED_ROWS,
    STORED_SCALES,
    STORED_ZEROS,
    stored_groups,
    stored_row_scales,
)


class Dense(NamedTuple):
    """A dense MLP's weights. Packed, `gate_up` is one matrix, gate first, else two. gelu is its tanh form."""

    gate_up: tuple[Tensor, ...]
    gate_up_bias: tuple[Tensor | None, ...]
    down: Tensor
    down_bias: Tensor | None
    activation: Literal["silu", "gelu"] = "silu"


class Weights(NamedTuple):
    """The weights of one layer. Packed, `qkv` is one matrix in the order q, k, v, otherwise three. The norms of q and k
    are as long as a head, or as all heads together. `input_norm` and `post_norm` norm what attention and the MLP read,
    `attention_norm` and `mlp_norm` what they add to the residual stream; a family has one pair, or both. `sinks`
    [heads] are scores that join each query's softmax and have no value. `kv_scales` are a checkpoint's own of keys and
    of values in fp8, [1] or [kv_heads] float32.
    """

    input_norm: Tensor | None
    qkv: tuple[Tensor, ...]
    qkv_bias: tuple[Tensor | None, ...]
    q_norm: Tensor | None
    k_norm: Tensor | None
    o: Tensor
    o_bias: Tensor | None
    post_norm: Tensor | None
    mlp: Dense | Experts
    attention_norm: Tensor | None = None
    mlp_norm: Tensor | None = None
    sinks: Tensor | None = None
    kv_scales: tuple[Tensor | None, Tensor | None] = (None, None)

    @property
    def streamed(self) -> tuple[Tensor, ...]:
        """The matrices that every token multiplies: all but those of experts."""
        mlp = (self.mlp.router,) if isinstance(self.mlp, Experts) else (*self.mlp.gate_up, self.mlp.down)
        return (*self.qkv, self.o, *mlp)

    @property
    def normed(self) -> tuple[Tensor, ...]:
        """The `streamed` matrices whose product may normalise its rows."""
        return (*self.qkv, *(() if isinstance(self.mlp, Experts) else self.mlp.gate_up))

    @property
    def dense(self) -> Dense:
        """The MLP where it is dense. Raises ValueError where the layer has experts."""
        if isinstance(self.mlp, Experts):
            raise ValueError("a layer of experts has no dense MLP")
        return self.mlp


def weights_of(config: Any, layer: Any, pack: bool) -> Weights:
    """The weights of a transformers model's layer, joined where `pack` is set."""
    attention = layer.self_attn
    packed = hasattr(attention, "qkv_proj")
    qkv = [attention.qkv_proj] if packed else [attention.q_proj, attention.k_proj, attention.v_proj]
    has_post_norms = hasattr(layer, "post_feedforward_layernorm")
    matrices, biases = (join_tensors(qkv, name, pack) for name in ("weight", "bias"))
    if (order := rotary_order(config.to_dict())) is not None:
        matrices, biases = (_reorder_rows(config, attention, parts, order) for parts in (matrices, biases))
    return Weights(
        input_norm=norm_of(config, layer, "input_layernorm"),
        qkv=matrices,
        qkv_bias=biases,
        q_norm=norm_of(config, attention, "q_norm"),
        k_norm=norm_of(config, attention, "k_norm"),
        o=attention.o_proj.weight,
        o_bias=attention.o_proj.bias,
        post_norm=norm_of(config, layer, "pre_feedforward_layernorm" if has_post_norms else "post_attention_layernorm"),
        mlp=experts_of(config, layer.mlp) if is_sparse(layer) else _dense(config, layer.mlp, pack),
        attention_norm=norm_of(
            config, layer, "post_attention_layernorm" if has_post_norms else "post_self_attn_layernorm"
        ),
        mlp_norm=norm_of(config, layer, "post_feedforward_layernorm" if has_post_norms else "post_mlp_layernorm"),
        sinks=getattr(attention, "sinks", None),
        kv_scales=(getattr(attention, "k_scale", None), getattr(attention, "v_scale", None)),
    )


def is_fp8(layers: Sequence[Weights]) -> bool:
    """Whether every matrix that all tokens multiply was stored in e4m3 with a scale for each row."""
    return all(stored_row_scales([matrix]) is not None for layer in layers for matrix in layer.streamed)


def _reorder_rows(config: Any, owner: Any, parts: tuple[Any, ...], order: list[int]) -> tuple[Any, ...]:
    """The rows of q, k and v, those of q and k in this order within each head: a copy that all decoders share."""
    if parts[0] is None:
        return parts
    copies = vars(owner).setdefault("reordered", {})
    if (rank := parts[0].ndim) not in copies:
        joined, size = torch.cat([part.detach() for part in parts]), head_size(config.to_dict())
        rows = torch.arange(len(joined), device=joined.device)
        rotated = (config.num_attention_heads + config.num_key_value_heads) * size
        rows[:rotated] = rows[:rotated].view(-1, size)[:, order].flatten()
        copies[rank] = joined[rows]
        for name in STORED:
            if (stored := getattr(parts[0], name, None)) is not None and len(parts) == 1:
                setattr(copies[rank], name, stored[rows.to(stored.device)])
    return tuple(copies[rank].split([len(part) for part in parts])) if len(parts) > 1 else (copies[rank],)


def norm_of(config: Any, owner: Any, name: str) -> Tensor | None:
    """What a norm multiplies by, in the model's dtype; None where the family has none of that name."""
    if not hasattr(owner, name):
        return None
    weight: Tensor = getattr(owner, name).weight
    weight = weight.to(getattr(config, "dtype", None) or weight.dtype)
    return (weight.detach().float() + 1).to(weight.dtype) if config.model_type in GEMMAS else weight


def _dense(config: Any, mlp: Any, pack: bool) -> Dense:
    gate_up = [mlp.gate_up_proj] if hasattr(mlp, "gate_up_proj") else [mlp.gate_proj, mlp.up_proj]
    return Dense(
        gate_up=join_tensors(gate_up, "weight", pack),
        gate_up_bias=join_tensors(gate_up, "bias", pack),
        down=mlp.down_proj.weight,
        down_bias=mlp.down_proj.bias,
        activation=GATES[activation(config.to_dict())],  # type: ignore[arg-type]
    )


def join_tensors(modules: list[Any], name: str, pack: bool) -> tuple[Any, ...]:
    """The modules' tensors; when packed, one. Their parameters become views of its rows, so that no later decoder moves
    what an earlier one's CUDA graph reads.
    """
    parts = [getattr(module, name) for module in modules]
    if parts[0] is None:
        return (None,) if pack else tuple(parts)
    joined = _already_joined(parts)
    if joined is None:
        joined = torch.cat([part.detach() for part in parts])
        for part, rows in zip(parts, joined.split([len(part) for part in parts]), strict=True):
            part.data = rows
    if (stored := stored_groups(parts)) is not None:
        setattr(joined, STORED_SCALES, stored[0])
        setattr(joined, STORED_ZEROS, stored[1])
    setattr(joined, STORED_ROWS, stored_row_scales(parts))
    return (joined,) if pack else tuple(parts)


def _already_joined(parts: list[Tensor]) -> Tensor | None:
    """The tensor whose consecutive rows the parts are, if an earlier decoder has packed them."""
    at = parts[0].storage_offset()
    for part in parts:
        same = part.untyped_storage().data_ptr() == parts[0].untyped_storage().data_ptr()
        if not same or part.storage_offset() != at:
            return None
        at += part.numel()
    rows = sum(len(part) for part in parts)
    return parts[0].detach().as_strided((rows, *parts[0].shape[1:]), parts[0].stride())
