"""The step between the QKV product and the output product in plain torch: reference, test inputs, torch's variant."""

from typing import Any

import torch
from torch import Tensor

from kernels.ops import StepAttentionCase

SPARE_SLOTS = 40
"""Slots of a test cache beyond those that are seen."""


def step_attention(
    case: StepAttentionCase,
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    position: Tensor,
) -> Tensor:
    """o [batch, heads · head_dim]; writes the rotated k, and v, into slot position[b] of the caches."""
    heads, kv_heads, head_dim = case.heads, case.kv_heads, case.head_dim
    q, k, v = qkv.view(case.batch, -1, head_dim).split([heads, kv_heads, kv_heads], dim=1)
    cosine, sine = (table[position][:, None] for table in (cos, sin))
    q, k = (each * cosine + turned(each) * sine for each in (q, k))
    at = position.expand(case.batch)
    rows = torch.arange(case.batch, device=qkv.device)
    k_cache[rows, at] = k.to(k_cache.dtype)
    v_cache[rows, at] = v
    wide = torch.promote_types(qkv.dtype, torch.float32)
    grouped = q.view(case.batch, kv_heads, heads // kv_heads, head_dim).to(wide)
    scores = torch.einsum("bhgd,blhd->bhgl", grouped, k_cache.to(wide)) * head_dim**-0.5
    slot = torch.arange(k_cache.shape[1], device=qkv.device)
    seen = slot <= at[:, None]
    if case.window is not None:
        seen = seen & (slot > at[:, None] - case.window)
    scores = scores.masked_fill(~seen[:, None, None], float("-inf"))
    values = torch.where(seen[:, :, None, None], v_cache, v_cache.new_zeros(())).to(wide)
    out = torch.einsum("bhgl,blhd->bhgd", torch.softmax(scores, dim=-1), values)
    return out.to(qkv.dtype).reshape(case.batch, heads * head_dim)


def turned(x: Tensor) -> Tensor:
    """[…, head_dim] with its halves exchanged, the new first one negated: what the sine multiplies."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def outputs(case: StepAttentionCase, arguments: dict[str, Any]) -> tuple[Tensor, ...]:
    """(o, k, v) with the new slots of the caches [batch, 1, kv_heads, head_dim]; the caches given stay as they are."""
    given = arguments | {name: arguments[name].clone() for name in ("k_cache", "v_cache")}
    o = step_attention(case, **given)
    at = given["position"].expand(case.batch)
    rows = torch.arange(case.batch, device=o.device)
    return o, *(given[name][rows, at][:, None] for name in ("k_cache", "v_cache"))


def draw(case: StepAttentionCase, make: Any, scale: float) -> dict[str, Tensor]:
    """Inputs by name; sequences end at slots of their own, the first of them at kv_len − 1."""
    capacity = case.kv_len + SPARE_SLOTS
    qkv = make.normal(case.batch, (case.heads + 2 * case.kv_heads) * case.head_dim, scale=scale)
    rates = 10_000.0 ** (-torch.arange(0, case.head_dim, 2, device=make.device, dtype=torch.float32) / case.head_dim)
    angles = torch.arange(capacity, device=make.device, dtype=torch.float32)[:, None] * rates
    both = torch.cat([angles, angles], dim=-1)
    caches = {
        name: make.normal(case.batch, capacity, case.kv_heads, case.head_dim, scale=size)
        for name, size in (("k_cache", 1.0), ("v_cache", scale))
    }
    position = (case.kv_len - 1 - 3 * torch.arange(case.batch, device=make.device)).clamp_min(0)
    return (
        {"qkv": qkv, "cos": both.cos().to(make.dtype), "sin": both.sin().to(make.dtype)}
        | caches
        | {"position": position}
    )
