"""The arrays that a launch uploads."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.megakernel.host.pack import experts_in_mxfp4
from kernels.megakernel.program import Program
from kernels.megakernel.program.weights import MXFP4
from kernels.model.decoder import Decoder, angles
from kernels.model.expert_tiles import tiles_of


def uploads(model: Any, program: Program, capacity: int, packed: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """The arrays of a transformers decoder (bf16) by their names in `Params`, on the model's device.

    Of a sharded model it is the rank's shard. `packed` is what `pack` made of it.

    `weights` uint8 and `weight_offset` int64 [sms + 1]; `program` int32 [n, 16] and `program_start` int32 [sms];
    `embedding` [vocab, hidden]; `norms` float32 [2 layers + 1, hidden], or with norms
    behind attention and MLP [4 layers + 1, hidden]; `rope` float32 [capacity, tables, head_dim / 2,
    2];
    where the family has them `bias` float32 [layers, rows of q, k, v], `qk_norm` float32 [layers, 2 * head_dim], or
    [layers, rows of q and k] of norms over all heads, `sinks` float32 [layers, heads], `out_bias` float32 [layers,
    hidden], `experts` as `tiles_of` or `experts_in_mxfp4` gives them, and biases of experts as `_expert_biases` does.
    """
    decoder, gpu = Decoder(model), model.lm_head.weight.device
    ones = torch.ones_like(decoder.norm)
    before = [norm for w in decoder.layers for norm in (w.input_norm, w.post_norm)]
    after = [norm for w in decoder.layers for norm in (w.attention_norm, w.mlp_norm) if norm is not None]
    norms = [ones if norm is None else norm for norm in (*before, decoder.norm, *after)]
    arrays = {
        "weights": packed[0],
        "weight_offset": packed[1].to(gpu),
        "program": torch.from_numpy(np.concatenate(program.instructions)).to(gpu),
        "program_start": torch.from_numpy(program.starts).to(gpu),
        "embedding": decoder.embedding,
        "norms": torch.stack(norms).float(),
        "rope": rope(decoder.rotary, capacity, program.shape.head_dim, gpu),
    }
    if program.shape.qkv_bias:
        biases: list[Any] = [w.qkv_bias[0] for w in decoder.layers]
        arrays["bias"] = torch.stack(biases).float()
    if program.shape.out_bias:
        out_biases: list[Any] = [w.o_bias for w in decoder.layers]
        arrays["out_bias"] = torch.stack(out_biases).float()
    if program.shape.sinks:
        sinks: list[Any] = [w.sinks for w in decoder.layers]
        arrays["sinks"] = torch.stack(sinks).float()
    if program.shape.qk_norm:
        head_norms: list[Any] = [(w.q_norm, w.k_norm) for w in decoder.layers]
        arrays["qk_norm"] = torch.stack([torch.cat(both) for both in head_norms]).float()
    if program.shape.experts:
        in_codes = program.layout.weights == MXFP4.name
        arrays["experts"] = experts_in_mxfp4(model) if in_codes else tiles_of(model)
    if program.shape.expert_bias:
        arrays |= _expert_biases([w.mlp for w in decoder.layers])
    return arrays


def _expert_biases(layers: Sequence[Any]) -> dict[str, Tensor]:
    """`router_bias` float32 [layers, experts filled up to a multiple of 16], `gate_up_bias` bf16 [layers, experts,
    inner, 2] of a gate and its up, and `down_bias` bf16 [layers, experts, hidden].
    """
    router = torch.stack([w.router_bias for w in layers]).float()
    return {
        "router_bias": torch.nn.functional.pad(router, (0, -router.shape[1] % 16)),
        "gate_up_bias": torch.stack([w.gate_up_bias for w in layers]).unflatten(2, (-1, 2)),
        "down_bias": torch.stack([w.down_bias for w in layers]),
    }


def rope(rotary: Any, capacity: int, head_dim: int, device: torch.device) -> Tensor:
    """cosine and sine [capacity, tables, head_dim / 2, 2] float32 of a transformers rotary embedding."""
    tables = angles(rotary, capacity, torch.zeros(1, device=device))
    halves = [table.view(capacity, -1, head_dim)[..., : head_dim // 2] for table in tables]
    return torch.stack(halves, dim=-1).float().contiguous()
