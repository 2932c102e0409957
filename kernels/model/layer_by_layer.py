"""The float32 logits of a generated model that is too large to be held: its layers are made one after the other."""

from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.model import decoder, loading, weights
from kernels.model.dense_families import multipliers


@torch.no_grad()
def float32_logits(config: dict[str, Any], ids: Tensor, device: torch.device, seed: int = 0) -> Tensor:
    """Teacher-forced logits [sequences, length, vocab] of ids [sequences, length], on the CPU.

    They are those of the model that `kernels.runners.load` generates of this configuration and seed in float32.
    transformers' own modules run on `device`, which holds one layer, the embedding or the LM head at a time. Raises
    ValueError for a model that the compact decoder refuses.
    """
    model: Any = loading.skeleton(config, "fp32")
    if reason := decoder.refusal(model):
        raise ValueError(f"no float32 logits layer by layer: {reason}")
    with device:
        rotary = type(model.model.rotary_emb)(config=model.config)
    multiplier, divisor = (getattr(model.config, name, 1) for name in ("embedding_multiplier", "logits_scaling"))
    embedding = _build_module(model, "model.embed_tokens", seed, device)
    if hasattr(embedding, "scalar_embed_scale"):  # Gemma's buffer, which is no weight
        embedding.embed_scale.fill_(embedding.scalar_embed_scale)
    hidden = embedding(ids.to(device)) * multiplier
    positions = torch.arange(ids.shape[1], device=device)[None]
    kinds = model.config.layer_types if isinstance(rotary.rope_type, dict) else [None] * len(model.model.layers)
    angles = {kind: rotary(hidden, positions, *([kind] if kind else [])) for kind in set(kinds)}
    for index, layer in enumerate(model.model.layers):
        shape = decoder.layer_shape(model.config, layer)
        window = shape.window_within(ids.shape[1])
        additive = model.config._attn_implementation == "eager"  # without a mask it is not causal
        plain = window is None and shape.softcap is None and not additive
        seen = None if plain else _mask(positions[0], window or ids.shape[1]).to(hidden.dtype)
        module = _build_module(model, f"model.layers.{index}", seed, device)
        hidden = module(hidden, attention_mask=seen, position_ids=positions, position_embeddings=angles[kinds[index]])
    hidden = _build_module(model, "model.norm", seed, device)(hidden)
    head = _build_module(
        model, "model.embed_tokens" if model.config.tie_word_embeddings else "lm_head", seed, device
    ).weight
    cap = multipliers(model.config.to_dict()).logit_cap
    return torch.cat([decoder.softcap(F.linear(rows, head).cpu() / divisor, cap) for rows in hidden.split(1)])


def _build_module(model: Any, name: str, seed: int, device: torch.device) -> Any:
    """The module of this name with its weights, on the device."""
    module = deepcopy(model.get_submodule(name)).to_empty(device=device)
    weights.generate_shard(module, model, seed, {}, f"{name}.")
    return module.eval()


def _mask(positions: Tensor, window: int) -> Tensor:
    """0 for the keys that each query sees within a window, else -inf: [1, 1, queries, keys]."""
    distance = positions[:, None] - positions
    return torch.where((distance >= 0) & (distance < window), 0.0, float("-inf"))[None, None]
