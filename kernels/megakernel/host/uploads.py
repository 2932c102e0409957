"""The arrays that a launch uploads."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.megakernel.program import Program
from kernels.model.expert_tiles import tiles_of


def uploads(model: Any, program: Program, capacity: int, packed: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """The arrays of a transformers decoder (bf16) by their names in `Params`, on the model's device.

    Of a divided model it is the rank's part. `packed` is what `pack` made of it.

    `weights` uint8 and `weight_offset` int64 [sms + 1]; `program` int32 [n, 16] and `program_start` int32 [sms];
    `embedding` [vocab, hidden]; `norms` float32 [2 layers + 1, hidden]; `rope` float32 [capacity, head_dim / 2, 2];
    where the family has them `bias` float32 [layers, rows of q, k, v], `qk_norm` float32 [layers, 2 * head_dim], or
    [layers, rows of q and k] of norms over all heads, and `experts` as `tiles_of` gives them.
    """
    core, layers = model.model, model.model.layers
    gpu = model.lm_head.weight.device
    norms = [norm.weight for layer in layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)]
    arrays = {
        "weights": packed[0],
        "weight_offset": packed[1].to(gpu),
        "program": torch.from_numpy(np.concatenate(program.instructions)).to(gpu),
        "program_start": torch.from_numpy(program.starts).to(gpu),
        "embedding": core.embed_tokens.weight,
        "norms": torch.stack([*norms, core.norm.weight]).float(),
        "rope": rope(core.rotary_emb, capacity, program.shape.head_dim, gpu),
    }
    attentions = [layer.self_attn for layer in layers]
    if program.shape.qkv_bias:
        biases = [torch.cat([a.q_proj.bias, a.k_proj.bias, a.v_proj.bias]) for a in attentions]
        arrays["bias"] = torch.stack(biases).float()
    if program.shape.qk_norm:
        arrays["qk_norm"] = torch.stack([torch.cat([a.q_norm.weight, a.k_norm.weight]) for a in attentions]).float()
    if program.shape.experts:
        arrays["experts"] = tiles_of(model)
    return arrays


def rope(rotary: Any, capacity: int, head_dim: int, device: torch.device) -> Tensor:
    """cosine and sine [capacity, head_dim / 2, 2] float32 of a transformers rotary embedding."""
    positions = torch.arange(capacity, device=device)[None]
    with torch.no_grad():
        cosine, sine = rotary(torch.zeros(1, device=device), positions)
    half = head_dim // 2
    return torch.stack([cosine[0, :, :half], sine[0, :, :half]], dim=-1).float().contiguous()
