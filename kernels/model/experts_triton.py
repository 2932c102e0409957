"""Routing of tokens to experts in Triton, in place of some twenty small kernels of torch a layer.

place      one program              route and order, of a few tokens
route      program (token)          softmax, the best experts and their weights
order      program (expert)         where its rows begin and end among the rows sorted by expert, and which they are
combine    program (token, block)   the token's rows times their weights, summed in float32
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.cuda.triton_launch import launch_once
from kernels.model.experts import Experts, Order, Routing

BLOCKS, COLUMNS, WARPS = (128, 1024), 512, 4
"""Rows that `order` reads at once, few or many, columns of a program of `combine`, and the warps of each."""
FEW_ROWS, FEW_PAIRS = 64, 8192
"""Rows, and pairs of a row and an expert, that `place` compares at most, in numbers rounded up to powers of two."""


class RouteConstants(NamedTuple):
    """Constants of `route` and `place`; a BLOCK, and TOKENS of `place`, are rounded up to a power of two."""

    BLOCK: int
    TOP_K: int
    TOP_K_BLOCK: int
    NORMALISED: bool
    ROUNDED: bool
    TOKENS: int = 1


@triton.jit
def _route_tokens(logits, topk_weights, topk_ids, experts, C: tl.constexpr):
    """The best of logits [experts]: ids of experts that there are, also of NaN, and weights by the softmax."""
    TOP_K: tl.constexpr = C.TOP_K
    token = tl.program_id(0)
    expert = tl.arange(0, C.BLOCK)
    x = tl.load(logits + token * experts + expert, mask=expert < experts, other=float("-inf")).to(tl.float32)
    weight = tl.exp(x - tl.max(x, axis=0))
    chance = tl.where(expert < experts, weight / tl.sum(weight, axis=0), -1.0)
    place = tl.arange(0, C.TOP_K_BLOCK)
    numbers = tl.zeros_like(place)
    top = numbers.to(tl.float32)
    for k in tl.static_range(TOP_K):
        best = tl.max(chance, axis=0)
        number = tl.minimum(tl.argmax(chance, axis=0), experts - 1)
        top = tl.where(place == k, best, top)
        numbers = tl.where(place == k, number, numbers)
        chance = tl.where(expert == number, -1.0, chance)
    if C.NORMALISED:
        top = top / tl.sum(top, axis=0)
    if C.ROUNDED:
        top = top.to(logits.dtype.element_ty).to(tl.float32)
    inside = place < TOP_K
    tl.store(topk_weights + token * TOP_K + place, top, mask=inside)
    tl.store(topk_ids + token * TOP_K + place, numbers, mask=inside)


@triton.jit
def _place_tokens(logits, topk_weights, token, offs, inverse, tokens, experts, C: tl.constexpr):
    """What `_route_tokens` and `_order_rows` give of up to C.TOKENS tokens together."""
    TOP_K: tl.constexpr = C.TOP_K
    row = tl.arange(0, C.TOKENS)[:, None]
    expert = tl.arange(0, C.BLOCK)[None, :]
    x = tl.load(logits + row * experts + expert, mask=(row < tokens) & (expert < experts), other=0.0).to(tl.float32)
    x = tl.where(expert < experts, x, float("-inf"))
    weight = tl.exp(x - tl.max(x, axis=1)[:, None])
    chance = tl.where(expert < experts, weight / tl.sum(weight, axis=1)[:, None], -1.0)
    k = tl.arange(0, C.TOP_K_BLOCK)[None, :]
    numbers = tl.zeros_like(row + k)
    top = numbers.to(tl.float32)
    for item in tl.static_range(TOP_K):
        best = tl.max(chance, axis=1)[:, None]
        number = tl.minimum(tl.argmax(chance, axis=1), experts - 1)[:, None]
        top = tl.where(k == item, best, top)
        numbers = tl.where(k == item, number, numbers)
        chance = tl.where(expert == number, -1.0, chance)
    if C.NORMALISED:
        top = top / tl.sum(top, axis=1)[:, None]
    if C.ROUNDED:
        top = top.to(logits.dtype.element_ty).to(tl.float32)
    inside = (row < tokens) & (k < TOP_K)
    tl.store(topk_weights + row * TOP_K + k, top, mask=inside)
    slots: tl.constexpr = C.TOKENS * C.TOP_K_BLOCK
    own = tl.where(inside, numbers, C.BLOCK)  # behind all experts where there is no row
    key = tl.ravel(own * slots + row * C.TOP_K_BLOCK + k)
    at = tl.sum((key[None, :] < key[:, None]).to(tl.int32), axis=1)
    slot = key % slots
    taken = key < C.BLOCK * slots
    tl.store(inverse + slot // C.TOP_K_BLOCK * TOP_K + slot % C.TOP_K_BLOCK, at.to(tl.int64), mask=taken)
    tl.store(token + at, (slot // C.TOP_K_BLOCK).to(tl.int64), mask=taken)
    of = tl.arange(0, C.BLOCK)
    before = tl.sum((key[None, :] < (of[:, None] + 1) * slots).to(tl.int32), axis=1)
    tl.store(offs + of, before, mask=of < experts)


@triton.jit(do_not_specialize=["rows"])
def _order_rows(topk_ids, token, offs, inverse, rows, TOP_K: tl.constexpr, BLOCK: tl.constexpr):
    """The places of an expert's rows, behind those of all experts before it, in the order of the tokens."""
    expert = tl.program_id(0)
    before = 0
    for start in range(0, rows, BLOCK):
        row = start + tl.arange(0, BLOCK)
        number = tl.load(topk_ids + row, mask=row < rows, other=2147483647)
        before += tl.sum((number < expert).to(tl.int32), axis=0)
    for start in range(0, rows, BLOCK):
        row = start + tl.arange(0, BLOCK)
        number = tl.load(topk_ids + row, mask=row < rows, other=2147483647)
        own = (number == expert).to(tl.int32)
        at = before + tl.cumsum(own, axis=0) - own
        tl.store(inverse + row, at.to(tl.int64), mask=own != 0)
        tl.store(token + at, (row // TOP_K).to(tl.int64), mask=own != 0)
        before += tl.sum(own, axis=0)
    tl.store(offs + expert, before)


@triton.jit
def _combine_rows(y, topk_weights, inverse, out, hidden, stride, TOP_K: tl.constexpr, COLUMNS: tl.constexpr):
    """A token's columns: the sum of its rows of y times their weights."""
    token = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < hidden
    total = tl.zeros((COLUMNS,), tl.float32)
    for k in tl.static_range(TOP_K):
        row = tl.load(inverse + token * TOP_K + k)
        weight = tl.load(topk_weights + token * TOP_K + k)
        total += weight * tl.load(y + row * stride + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + token.to(tl.int64) * hidden + column, total.to(y.dtype.element_ty), mask=inside)


def constants_of(w: Experts) -> RouteConstants:
    """The constants of the layer's `route`."""
    block, top_k_block = (triton.next_power_of_2(count) for count in (len(w.router), w.top_k))
    return RouteConstants(block, w.top_k, top_k_block, w.normalised, w.rounded)


def route_and_order(logits: Tensor, w: Experts) -> tuple[Tensor, Order]:
    """See `kernels.model.experts.route_and_order`; a few tokens in one kernel."""
    (m, experts), constants = logits.shape, constants_of(w)._replace(TOKENS=triton.next_power_of_2(len(logits)))
    rows = constants.TOKENS * constants.TOP_K_BLOCK
    if rows > FEW_ROWS or rows * constants.BLOCK > FEW_PAIRS:
        topk_weights, topk_ids = route(logits, w)
        return topk_weights, order_by_expert(topk_ids, experts)
    topk_weights = torch.empty(m, w.top_k, dtype=torch.float32, device=logits.device)
    token, inverse = (torch.empty(m, w.top_k, dtype=torch.int64, device=logits.device) for _ in range(2))
    offs = torch.empty(experts, dtype=torch.int32, device=logits.device)
    arguments, outputs = (logits, topk_weights, token, offs, inverse, m, experts), (topk_weights, token, offs, inverse)
    launch_once(_place_tokens, (1,), (*arguments, constants), outputs, num_warps=WARPS)
    return topk_weights, Order(token.view(-1), offs, inverse)


def route(logits: Tensor, w: Experts) -> tuple[Tensor, Tensor]:
    """See `kernels.model.experts.route`; the ids are int32."""
    m, experts = logits.shape
    topk_weights = torch.empty(m, w.top_k, dtype=torch.float32, device=logits.device)
    topk_ids = torch.empty(m, w.top_k, dtype=torch.int32, device=logits.device)
    outputs = topk_weights, topk_ids
    launch_once(_route_tokens, (m,), (logits, *outputs, experts, constants_of(w)), outputs, num_warps=1)
    return topk_weights, topk_ids


def order_by_expert(topk_ids: Tensor, experts: int) -> Order:
    """See `kernels.model.experts.order_by_expert`; `topk_ids` is int32 and contiguous."""
    token, inverse = (torch.empty(topk_ids.shape, dtype=torch.int64, device=topk_ids.device) for _ in range(2))
    offs = torch.empty(experts, dtype=torch.int32, device=topk_ids.device)
    rows = topk_ids.numel()
    constants = topk_ids.shape[1], BLOCKS[rows > BLOCKS[0]]
    arguments = topk_ids, token, offs, inverse, rows, *constants
    launch_once(_order_rows, (experts,), arguments, (token, offs), num_warps=WARPS)
    return Order(token.view(-1), offs, inverse)


def combine_experts(y: Tensor, topk_weights: Tensor, inverse: Tensor) -> Tensor:
    """See `kernels.model.experts.combine_experts`; the columns of y are contiguous."""
    (m, top_k), hidden = inverse.shape, y.shape[1]
    out = torch.empty(m, hidden, dtype=y.dtype, device=y.device)
    arguments = y, topk_weights, inverse, out, hidden, y.stride(0), top_k, COLUMNS
    launch_once(_combine_rows, (m, triton.cdiv(hidden, COLUMNS)), arguments, out, num_warps=WARPS)
    return out


ROUTING = Routing(route_and_order, combine_experts)
