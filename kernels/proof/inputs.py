"""Test inputs of every op: random, in the layouts of the registry, in three magnitudes."""

import math
from typing import Literal

import torch

from kernels.dtypes import DTYPES
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
from kernels.proof.paged_kv import PAGE_SIZE, shuffled_pages

Kind = Literal["normal", "large", "tiny"]
KINDS: tuple[Kind, ...] = ("normal", "large", "tiny")

MAGNITUDES: dict[Kind, float] = {"normal": 1.0, "large": 16.0, "tiny": 1e-3}
"""Standard deviation of the activations; `large` keeps products of two inside the range of fp16."""

SPARE_SLOTS = 40
"""Slots of a cache beyond those that an append writes."""


class Maker:
    """Draws tensors on one device from one seed."""

    def __init__(self, device: torch.device | str, seed: int, dtype: torch.dtype) -> None:
        self.device = torch.device(device)
        self.dtype, self.seed = dtype, seed
        self.generator = torch.Generator(self.device).manual_seed(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> torch.Tensor:
        """Normal values of standard deviation `scale`, drawn in float32 and rounded to the dtype."""
        drawn = torch.randn(shape, generator=self.generator, device=self.device, dtype=torch.float32)
        return drawn.mul_(scale).to(self.dtype)

    def uniform(self, *shape: int) -> torch.Tensor:
        """float32 from 0 to 1."""
        return torch.rand(shape, generator=self.generator, device=self.device)

    def integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        """int64 from low to high - 1."""
        return torch.randint(low, high, shape, generator=self.generator, device=self.device)


def draw(case: Case, device: torch.device | str, seed: int, kind: Kind = "normal") -> dict[str, torch.Tensor]:
    """The arguments of one call of the case by name, fresh for each seed.

    Raises ValueError for a case that has no such inputs (a whole model).
    """
    scale = MAGNITUDES[kind]
    match case:
        case LinearCase():
            return _linear(case, Maker(device, seed, DTYPES[case.dtype]), scale)
        case GroupedCase():
            return _grouped(case, Maker(device, seed, DTYPES[case.dtype]), scale)
        case AttentionCase():
            return _attention(case, Maker(device, seed, DTYPES[case.dtype]), scale)
        case RmsNormCase():
            make = Maker(device, seed, DTYPES[case.dtype])
            found = {"x": make.normal(case.m, case.n, scale=scale), "w": make.normal(case.n)}
            return found | ({"residual": make.normal(case.m, case.n, scale=scale)} if case.residual else {})
        case RopeCase() if case.append or not case.paged:
            return _rope(case, Maker(device, seed, DTYPES[case.dtype]), scale)
        case StepAttentionCase():
            return step_reference.draw(case, Maker(device, seed, DTYPES[case.dtype]), scale)
        case GatedCase():
            return {"gate_up": Maker(device, seed, DTYPES[case.dtype]).normal(case.m, 2 * case.n, scale=scale)}
        case LmHeadCase():
            make = Maker(device, seed, DTYPES[case.dtype])
            x = make.normal(case.m, case.k, scale=scale)
            found = {"x": x, "w": make.normal(case.vocab, case.k, scale=1 / math.sqrt(case.k))}
            return found | (_sampling(case.m, make) if case.sampling != "argmax" else {})
    raise ValueError(f"no test inputs for {case.key}")


def _linear(case: LinearCase, make: Maker, scale: float) -> dict[str, torch.Tensor]:
    found = {
        "x": make.normal(case.m, case.k, scale=scale),
        "w": make.normal(case.weight_rows, case.k, scale=1 / math.sqrt(case.k)),
    }
    if case.adds_bias:
        found["bias"] = make.normal(case.n, scale=scale)
    if case.epilogue == "residual":
        found["residual"] = make.normal(case.m, case.n, scale=scale)
    return found


def _sampling(m: int, make: Maker) -> dict[str, torch.Tensor]:
    """Temperatures, top_p and seeds of m rows; every fourth row is greedy."""
    draw = torch.Generator().manual_seed(m + make.seed)
    temperature = 0.5 + torch.rand(m, generator=draw)
    temperature[3::4] = 0
    found = {
        "temperature": temperature,
        "top_p": 0.5 + torch.rand(m, generator=draw) / 2,
        "seed": torch.randint(-(2**62), 2**62, (m,), generator=draw),
    }
    return {name: value.to(make.device) for name, value in found.items()}


def _grouped(case: GroupedCase, make: Maker, scale: float) -> dict[str, torch.Tensor]:
    """Rows fall to experts by chance, with unequal chances: some experts get none where there are many."""
    chances = make.normal(case.experts).float().mul(0.5).softmax(dim=0)
    chosen = torch.searchsorted(chances.cumsum(0), torch.sort(make.uniform(case.rows)).values)
    counts = torch.bincount(chosen.clamp_max(case.experts - 1), minlength=case.experts)
    return {
        "x": make.normal(case.rows, case.k, scale=scale),
        "w": make.normal(case.experts, case.weight_rows, case.k, scale=1 / math.sqrt(case.k)),
        "ends": counts.cumsum(0).to(torch.int32),
    }


def _attention(case: AttentionCase, make: Maker, scale: float) -> dict[str, torch.Tensor]:
    q = make.normal(case.batch, case.q_len, case.heads, case.head_dim, scale=scale)
    make.dtype = DTYPES["fp32" if case.kv_dtype == "fp8" else case.kv_dtype]
    k = make.normal(case.batch, case.kv_len, case.kv_heads, case.head_dim)
    v = make.normal(case.batch, case.kv_len, case.kv_heads, case.head_dim, scale=scale)
    return {"q": q, "k": k, "v": v} | (_cached(case, make, k, v) if case.cached else {})


def _cached(case: AttentionCase, make: Maker, k: torch.Tensor, v: torch.Tensor) -> dict[str, torch.Tensor]:
    """k and v as the case's cache holds them, with what it takes to read them. Slots that hold no key are NaN, and so
    are pages that no sequence uses; their entries of the table are -1.
    """
    found, page_size = {"k": k, "v": v}, case.page_size or PAGE_SIZE
    for name in ("k", "v") if case.kv_dtype == "fp8" else ():
        found[f"{name}_scale"] = found[name].abs().amax(dim=(0, 1, 3)) / 448 if k.numel() else k.new_ones(case.kv_heads)
        found[name] = (found[name] / found[f"{name}_scale"][:, None]).to(torch.float8_e4m3fn)
    if case.kv_lengths is not None:
        found["lengths"] = torch.tensor(case.kv_lengths, dtype=torch.int32, device=k.device)
    per_sequence = -(-case.kv_len // page_size)
    table, pages = shuffled_pages(case.batch, per_sequence, make.generator)
    for name in ("k", "v"):
        held = found[name].new_empty(case.batch, per_sequence * page_size, *k.shape[2:]) if case.paged else found[name]
        held[:, : case.kv_len] = found[name]
        for row, (_, length) in zip(
            held.view(torch.uint8) if case.kv_dtype == "fp8" else held, case.sequences, strict=True
        ):
            row[length:] = 0x7F if case.kv_dtype == "fp8" else math.nan
        found[name] = held
        if case.paged:
            spread = held.new_empty(pages, page_size, *k.shape[2:])
            spread.view(torch.uint8).fill_(0x7F)
            spread[table.flatten().long()] = held.unflatten(1, (per_sequence, page_size)).flatten(0, 1)
            found[name] = spread
    for row, (_, length) in zip(table, case.sequences, strict=True):
        row[-(-length // page_size) :] = -1
    return found | ({"page_table": table} if case.paged else {})


def _rope(case: RopeCase, make: Maker, scale: float) -> dict[str, torch.Tensor]:
    q = make.normal(case.batch, case.q_len, case.heads, case.head_dim, scale=scale)
    k = make.normal(case.batch, case.q_len, case.kv_heads, case.head_dim, scale=scale)
    rates = 10_000.0 ** (-torch.arange(0, case.head_dim, 2, device=make.device, dtype=torch.float32) / case.head_dim)
    angles = (17 + torch.arange(case.q_len, device=make.device, dtype=torch.float32))[:, None] * rates
    both = torch.cat([angles, angles], dim=-1).expand(case.batch, -1, -1)
    found = {"q": q, "k": k, "cos": both.cos().to(make.dtype), "sin": both.sin().to(make.dtype)}
    return found | _cache(case, make, scale) if case.append else found


def _cache(case: RopeCase, make: Maker, scale: float) -> dict[str, torch.Tensor]:
    """What an append takes beside q, k, cos and sin: caches that are nowhere empty, and positions in their middle."""
    page_size = case.page_size or PAGE_SIZE
    per_sequence = (case.q_len + SPARE_SLOTS) // page_size + 1
    shape, table = (case.batch, per_sequence * page_size), {}
    if case.paged:
        page_table, pages = shuffled_pages(case.batch, per_sequence, make.generator)
        shape, table = (pages, page_size), {"page_table": page_table}
    caches = {name: make.normal(*shape, case.kv_heads, case.head_dim) for name in ("k_cache", "v_cache")}
    position = make.integers(0, per_sequence * page_size - case.q_len + 1, case.batch)
    v = make.normal(case.batch, case.q_len, case.kv_heads, case.head_dim, scale=scale)
    return {"v": v, **caches, "position": position, **table}
