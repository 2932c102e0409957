"""Routing of tokens to experts in Triton, in place of some twenty small kernels of torch a layer.

place      one program              route and order, of a few tokens
route      program (token)          softmax, the best experts and their shares
order      program (expert)         where its rows begin and end among the rows sorted by expert, and which they are
combine    program (token, block)   the token's rows times their shares, summed in float32
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.cuda.triton_launch import launched
from kernels.model.experts import Experts, Order, Routing

BLOCKS, COLUMNS, WARPS = (128, 1024), 512, 4
"""Rows that `order` reads at once, few or many, columns of a program of `combine`, and the warps of each."""
FEW_ROWS, FEW_PAIRS = 64, 8192
"""Rows, and pairs of a row and an expert, that `place` compares at most, in numbers rounded up to powers of two."""


class RouteConstants(NamedTuple):
    """Constants of `route` and `place`; a BLOCK, and TOKENS of `place`, are rounded up to a power of two."""

    BLOCK: int
    CHOSEN: int
    CHOSEN_BLOCK: int
    NORMALISED: bool
    ROUNDED: bool
    TOKENS: int = 1


@triton.jit
def _route_tokens(logits, shares, chosen, experts, C: tl.constexpr):
    """The best of a token's logits [experts]: their numbers, and their shares of the softmax. The number is of an
    expert that there is, also where logits are NaN.
    """
    CHOSEN: tl.constexpr = C.CHOSEN
    token = tl.program_id(0)
    expert = tl.arange(0, C.BLOCK)
    x = tl.load(logits + token * experts + expert, mask=expert < experts, other=float("-inf")).to(tl.float32)
    weight = tl.exp(x - tl.max(x, axis=0))
    chance = tl.where(expert < experts, weight / tl.sum(weight, axis=0), -1.0)
    place = tl.arange(0, C.CHOSEN_BLOCK)
    numbers = tl.zeros_like(place)
    top = numbers.to(tl.float32)
    for k in tl.static_range(CHOSEN):
        best = tl.max(chance, axis=0)
        number = tl.minimum(tl.argmax(chance, axis=0), experts - 1)
        top = tl.where(place == k, best, top)
        numbers = tl.where(place == k, number, numbers)
        chance = tl.where(expert == number, -1.0, chance)
    if C.NORMALISED:
        top = top / tl.sum(top, axis=0)
    if C.ROUNDED:
        top = top.to(logits.dtype.element_ty).to(tl.float32)
    inside = place < CHOSEN
    tl.store(shares + token * CHOSEN + place, top, mask=inside)
    tl.store(chosen + token * CHOSEN + place, numbers, mask=inside)


@triton.jit
def _place_tokens(logits, shares, token, offs, place, tokens, experts, C: tl.constexpr):
    """What `_route_tokens` and `_order_rows` give of up to C.TOKENS tokens together."""
    CHOSEN: tl.constexpr = C.CHOSEN
    row = tl.arange(0, C.TOKENS)[:, None]
    expert = tl.arange(0, C.BLOCK)[None, :]
    x = tl.load(logits + row * experts + expert, mask=(row < tokens) & (expert < experts), other=0.0).to(tl.float32)
    x = tl.where(expert < experts, x, float("-inf"))
    weight = tl.exp(x - tl.max(x, axis=1)[:, None])
    chance = tl.where(expert < experts, weight / tl.sum(weight, axis=1)[:, None], -1.0)
    k = tl.arange(0, C.CHOSEN_BLOCK)[None, :]
    numbers = tl.zeros_like(row + k)
    top = numbers.to(tl.float32)
    for each in tl.static_range(CHOSEN):
        best = tl.max(chance, axis=1)[:, None]
        number = tl.minimum(tl.argmax(chance, axis=1), experts - 1)[:, None]
        top = tl.where(k == each, best, top)
        numbers = tl.where(k == each, number, numbers)
        chance = tl.where(expert == number, -1.0, chance)
    if C.NORMALISED:
        top = top / tl.sum(top, axis=1)[:, None]
    if C.ROUNDED:
        top = top.to(logits.dtype.element_ty).to(tl.float32)
    inside = (row < tokens) & (k < CHOSEN)
    tl.store(shares + row * CHOSEN + k, top, mask=inside)
    slots: tl.constexpr = C.TOKENS * C.CHOSEN_BLOCK
    own = tl.where(inside, numbers, C.BLOCK)  # behind all experts where there is no row
    key = tl.ravel(own * slots + row * C.CHOSEN_BLOCK + k)
    at = tl.sum((key[None, :] < key[:, None]).to(tl.int32), axis=1)
    slot = key % slots
    taken = key < C.BLOCK * slots
    tl.store(place + slot // C.CHOSEN_BLOCK * CHOSEN + slot % C.CHOSEN_BLOCK, at.to(tl.int64), mask=taken)
    tl.store(token + at, (slot // C.CHOSEN_BLOCK).to(tl.int64), mask=taken)
    of = tl.arange(0, C.BLOCK)
    before = tl.sum((key[None, :] < (of[:, None] + 1) * slots).to(tl.int32), axis=1)
    tl.store(offs + of, before, mask=of < experts)


@triton.jit(do_not_specialize=["rows"])
def _order_rows(chosen, token, offs, place, rows, CHOSEN: tl.constexpr, BLOCK: tl.constexpr):
    """The places of an expert's rows, behind those of all experts before it, in the order of the tokens."""
    expert = tl.program_id(0)
    before = 0
    for start in range(0, rows, BLOCK):
        row = start + tl.arange(0, BLOCK)
        number = tl.load(chosen + row, mask=row < rows, other=2147483647)
        before += tl.sum((number < expert).to(tl.int32), axis=0)
    for start in range(0, rows, BLOCK):
        row = start + tl.arange(0, BLOCK)
        number = tl.load(chosen + row, mask=row < rows, other=2147483647)
        own = (number == expert).to(tl.int32)
        at = before + tl.cumsum(own, axis=0) - own
        tl.store(place + row, at.to(tl.int64), mask=own != 0)
        tl.store(token + at, (row // CHOSEN).to(tl.int64), mask=own != 0)
        before += tl.sum(own, axis=0)
    tl.store(offs + expert, before)


@triton.jit
def _combine_rows(y, shares, place, out, hidden, stride, CHOSEN: tl.constexpr, COLUMNS: tl.constexpr):
    """A token's columns: the sum of its rows of y times their shares."""
    token = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < hidden
    total = tl.zeros((COLUMNS,), tl.float32)
    for k in tl.static_range(CHOSEN):
        row = tl.load(place + token * CHOSEN + k)
        share = tl.load(shares + token * CHOSEN + k)
        total += share * tl.load(y + row * stride + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + token.to(tl.int64) * hidden + column, total.to(y.dtype.element_ty), mask=inside)


def constants_of(w: Experts) -> RouteConstants:
    """The constants of the layer's `route`."""
    block, chosen = (triton.next_power_of_2(count) for count in (len(w.router), w.chosen))
    return RouteConstants(block, w.chosen, chosen, w.normalised, w.rounded)


def placed(logits: Tensor, w: Experts) -> tuple[Tensor, Order]:
    """See `kernels.model.experts.placed`; a few tokens in one kernel."""
    (m, experts), constants = logits.shape, constants_of(w)._replace(TOKENS=triton.next_power_of_2(len(logits)))
    rows = constants.TOKENS * constants.CHOSEN_BLOCK
    if rows > FEW_ROWS or rows * constants.BLOCK > FEW_PAIRS:
        shares, chosen = routed(logits, w)
        return shares, ordered(chosen, experts)
    shares = torch.empty(m, w.chosen, dtype=torch.float32, device=logits.device)
    token, place = (torch.empty(m, w.chosen, dtype=torch.int64, device=logits.device) for _ in range(2))
    offs = torch.empty(experts, dtype=torch.int32, device=logits.device)
    arguments, outputs = (logits, shares, token, offs, place, m, experts), (shares, token, offs, place)
    launched(_place_tokens, (1,), (*arguments, constants), outputs, num_warps=WARPS)
    return shares, Order(token.view(-1), offs, place)


def routed(logits: Tensor, w: Experts) -> tuple[Tensor, Tensor]:
    """See `kernels.model.experts.routed`; the numbers are int32."""
    m, experts = logits.shape
    shares = torch.empty(m, w.chosen, dtype=torch.float32, device=logits.device)
    chosen = torch.empty(m, w.chosen, dtype=torch.int32, device=logits.device)
    launched(_route_tokens, (m,), (logits, shares, chosen, experts, constants_of(w)), (shares, chosen), num_warps=1)
    return shares, chosen


def ordered(chosen: Tensor, experts: int) -> Order:
    """See `kernels.model.experts.ordered`; `chosen` is int32 and contiguous."""
    token, place = (torch.empty(chosen.shape, dtype=torch.int64, device=chosen.device) for _ in range(2))
    offs = torch.empty(experts, dtype=torch.int32, device=chosen.device)
    rows = chosen.numel()
    constants = chosen.shape[1], BLOCKS[rows > BLOCKS[0]]
    launched(_order_rows, (experts,), (chosen, token, offs, place, rows, *constants), (token, offs), num_warps=WARPS)
    return Order(token.view(-1), offs, place)


def combined(y: Tensor, shares: Tensor, place: Tensor) -> Tensor:
    """See `kernels.model.experts.combined`; the columns of y are contiguous."""
    (m, chosen), hidden = place.shape, y.shape[1]
    out = torch.empty(m, hidden, dtype=y.dtype, device=y.device)
    arguments = y, shares, place, out, hidden, y.stride(0), chosen, COLUMNS
    launched(_combine_rows, (m, triton.cdiv(hidden, COLUMNS)), arguments, out, num_warps=WARPS)
    return out


ROUTING = Routing(placed, combined)
