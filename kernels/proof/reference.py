"""Each op in plain torch, in the precision asked for: float64 as the truth, the case's own dtype as torch's best.

Memory stays bounded: attention goes query block by query block, the LM head by blocks of the vocabulary.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F

from kernels.ops import (
    AttentionCase,
    Case,
    GatedCase,
    GroupedCase,
    LinearCase,
    LmHeadCase,
    RmsNormCase,
    RopeCase,
    StepAttentionCase,
)
from kernels.proof import step_reference
from kernels.proof.paged_kv import each_sequence
from kernels.quant import scaled

BLOCK_ELEMENTS = 1 << 26
"""Largest block of scores or logits that is held at once."""

EPSILON = 1e-6
"""The epsilon of RMSNorm where the call does not give one."""

TOP_K = 50
"""The candidates that sampling keeps where the call does not say."""

Outputs = tuple[torch.Tensor, ...]


def compute(case: Case, arguments: dict[str, Any], dtype: torch.dtype | None = torch.float64) -> Outputs:
    """The op's outputs from the call's arguments, calculated in `dtype` (None: in the arguments' own).

    A norm that quantises gives y itself; an append the rotated q, and then what its slots of the caches hold.
    Raises ValueError for an op without a reference.
    """
    wide = {name: value for name, value in arguments.items() if dtype is not None and value.is_floating_point()}
    given = arguments | {name: value.to(dtype) for name, value in wide.items()}
    match case:
        case LinearCase():
            return (linear(case, **given),)
        case AttentionCase() if case.cached:
            return (each_sequence(case, given, lambda plain, one: attention(plain, **one)),)
        case GroupedCase():
            return (grouped(case, **given),)
        case AttentionCase():
            return (attention(case, **given),)
        case StepAttentionCase():
            return step_reference.outputs(case, given)
        case RmsNormCase():
            return rmsnorm(**given)
        case RopeCase():
            turned = rope(*(given[name] for name in ("q", "k", "cos", "sin")))
            return (*turned, given["v"]) if case.append else turned
        case GatedCase():
            return (gated(case, **given),)
        case LmHeadCase() if case.sampling == "argmax":
            return (lm_head(**given),)
        case LmHeadCase():
            settings = {name: arguments[name] for name in ("temperature", "top_p", "seed")}
            return (sample(logits(given["x"], given["w"]), **settings),)
    raise ValueError(f"no reference for {case.key}")


def linear(
    case: LinearCase,
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    eps: float = EPSILON,
) -> torch.Tensor:
    """y [m, n] = epilogue(x [m, k] · w [n, k]ᵀ).

    `rmsnorm_scale` divides each row by the root mean square of its x (the norm's own weight is folded into w), before
    a bias or swiglu; `quantise` is the plain product: a variant returns it as (values, scales), which the gate
    multiplies out (`multiplied_out`).
    """
    y = x @ w.T
    if case.normalises:
        wide = x if x.dtype == torch.float64 else x.float()
        y = y * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps).to(y.dtype)
    for added in (bias, residual):
        y = y if added is None else y + added
    if case.gates:
        gate, up = y.chunk(2, dim=-1)
        y = F.silu(gate) * up
    return y


def grouped(case: GroupedCase, x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """y [rows, n]: each expert's rows of x [rows, k], up to its end, times its w [n, k]ᵀ, and the epilogue."""
    expert = LinearCase(m=case.rows, n=case.n, k=case.k, epilogue=case.epilogue)
    starts = [0, *ends.tolist()]
    return torch.cat([linear(expert, x[a:b], each) for a, b, each in zip(starts, starts[1:], w, strict=False)])


def attention(case: AttentionCase, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """o [batch, q_len, heads, head_dim]; causal aligns the last query with the last key."""
    group = case.heads // case.kv_heads
    k, v = (each.to(q.dtype).repeat_interleave(group, dim=2).transpose(1, 2) for each in (k, v))
    q = q.transpose(1, 2)
    rows = max(1, BLOCK_ELEMENTS // max(1, case.batch * case.heads * case.kv_len))
    out = torch.empty_like(q)
    for start in range(0, case.q_len, rows):
        block = slice(start, min(start + rows, case.q_len))
        scores = q[:, :, block] @ k.transpose(-1, -2) / math.sqrt(case.head_dim)
        if case.softcap is not None:
            scores = case.softcap * torch.tanh(scores / case.softcap)
        scores = scores.masked_fill(~visible(case, block, q.device), -math.inf)
        out[:, :, block] = torch.nan_to_num(torch.softmax(scores, dim=-1)) @ v
    return out.transpose(1, 2).contiguous()


def visible(case: AttentionCase, block: slice, device: torch.device) -> torch.Tensor:
    """Which keys each query of the block sees, [queries, kv_len] bool."""
    query = torch.arange(block.start, block.stop, device=device)[:, None] + (case.kv_len - case.q_len)
    key = torch.arange(case.kv_len, device=device)[None, :]
    seen = torch.ones(block.stop - block.start, case.kv_len, dtype=torch.bool, device=device)
    if case.causal:
        seen &= key <= query
    if case.window is not None:
        seen &= (query - key).abs() < case.window
    if case.lengths is not None:
        sequence = torch.repeat_interleave(torch.tensor(case.lengths, device=device))
        seen &= sequence[block][:, None] == sequence[None, :]
    return seen


def rmsnorm(x: torch.Tensor, w: torch.Tensor, residual: torch.Tensor | None = None, eps: float = EPSILON) -> Outputs:
    """(y,) or, with a residual, (y, x + residual), each [m, n]; half precisions take the mean in float32."""
    total = x if residual is None else x + residual
    wide = total if total.dtype == torch.float64 else total.float()
    y = (wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)).to(x.dtype) * w
    return (y,) if residual is None else (y, total)


def rope(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Outputs:
    """q and k [batch, q_len, heads, head_dim] rotated by halves; cos and sin [batch, q_len, head_dim]."""
    cos, sin = cos[:, :, None], sin[:, :, None]
    return tuple(each * cos + step_reference.turned(each) * sin for each in (q, k))


def gated(case: GatedCase, gate_up: torch.Tensor) -> torch.Tensor:
    """y [m, n] = activation(gate) · up of gate_up [m, 2n]; gelu is the tanh form, as language models use it."""
    gate, up = gate_up.chunk(2, dim=-1)
    return (F.silu(gate) if case.activation == "silu" else F.gelu(gate, approximate="tanh")) * up


def lm_head(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """ids [m] int64 of the largest logit of each row of x [m, k] · w [vocab, k]ᵀ."""
    return logits(x, w).argmax(dim=-1)


def logits(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """x [m, k] · w [vocab, k]ᵀ, [m, vocab], in x's dtype, by blocks of the vocabulary."""
    rows = max(1, BLOCK_ELEMENTS // max(1, x.shape[-1]))
    return torch.cat([x @ block.to(x.dtype).T for block in w.split(rows)], dim=-1)


def sample(logits: torch.Tensor, temperature: Any, top_p: Any, seed: Any, top_k: int = TOP_K) -> torch.Tensor:
    """ids [m] int64 drawn from logits [m, vocab], as `LmHeadSkinny.build` says; the settings are [m]."""
    order, until, wanted = distribution(logits, temperature, top_p, seed, top_k)
    place = (until <= wanted[:, None]).sum(dim=1).clamp(max=order.shape[1] - 1)
    return order.gather(1, place[:, None])[:, 0]


def distribution(
    logits: torch.Tensor, temperature: Any, top_p: Any, seed: Any, top_k: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of each row: its top_k tokens in falling order [m, top_k], the probability up to each of those that are kept
    (1 from the last kept one on), and the number in [0, 1) that decides. At temperature 0 only the first is kept.
    """
    best, order = logits.double().topk(min(top_k, logits.shape[1]), dim=1)
    heat = temperature.double()[:, None]
    share = torch.softmax((best - best[:, :1]) / heat.clamp_min(1e-30), dim=1)
    until = share.cumsum(dim=1)
    kept = (until - share < top_p.double()[:, None]) & (heat > 0)
    kept[:, 0] = True
    until = (share * kept).cumsum(dim=1)
    until = torch.where(kept, until / until[:, -1:], torch.ones_like(until))
    return order, until, uniform(seed)


def uniform(seed: torch.Tensor) -> torch.Tensor:
    """splitmix64 of each int64 seed, its upper 24 bits as a float64 in [0, 1)."""
    z = seed + -0x61C8864680B583EB  # 0x9e3779b97f4a7c15
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        z = (z ^ z >> shift & (1 << 64 - shift) - 1) * factor  # 0xbf58476d1ce4e5b9, 0x94d049bb133111eb
    return ((z ^ z >> 31 & (1 << 33) - 1) >> 40 & (1 << 24) - 1).double() / (1 << 24)


def native(case: Case, arguments: dict[str, Any]) -> Outputs:
    """What torch itself answers in the arguments' own precision: the yardstick of the accuracy gate."""
    if isinstance(case, AttentionCase) and case.cached:
        return (each_sequence(case, arguments, lambda plain, one: native(plain, one)[0]),)
    if isinstance(case, AttentionCase) and case.softcap is None and case.batch and case.q_len and case.kv_len:
        return (_sdpa(case, **arguments),)
    if isinstance(case, LinearCase) and case.epilogue == "quantise":
        return (_through_fp8(linear(case, **arguments)),)
    if isinstance(case, RmsNormCase) and case.quantise:
        y, *total = rmsnorm(**arguments)
        return (_through_fp8(y), *total)
    return compute(case, arguments, dtype=None)


def multiplied_out(values: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """values [m, n] times scales, float32: [m, 1] one a row, [m, ⌈n / 128⌉] one for each 128 columns of a row."""
    if scales.shape[1] > 1:
        scales = scales.repeat_interleave(128, dim=1)[:, : values.shape[1]]
    return values.float() * scales.float()


def _through_fp8(y: torch.Tensor) -> torch.Tensor:
    """y as fp8 with a scale per row holds it, in float32."""
    return scaled.held(scaled.of_x(y, "row"))


def _sdpa(case: AttentionCase, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    free = case.window is None and case.lengths is None
    square = case.causal and free and case.q_len == case.kv_len
    plain = free and (not case.causal or case.q_len == 1)
    mask = None if square or plain else visible(case, slice(0, case.q_len), q.device)
    q, k, v = (each.to(q.dtype).transpose(1, 2) for each in (q, k, v))
    o = F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=square, enable_gqa=case.heads != case.kv_heads
    )
    return o.transpose(1, 2)
