"""Shapes of norms, gates, rotary embeddings and LM heads. Imports without torch."""

import random
from typing import Any, get_args

from kernels.cases.random_sizes import random_size
from kernels.ops import Case, DType, GatedCase, LmHeadCase, RmsNormCase, RopeCase, SamplingKind, Weights
from kernels.ops.gated import Activation

LARGE = 16_384
"""Rows at which an op is bound by memory alone: its tensors are several times the L2."""


def bench(cpu: bool) -> list[Case]:
    """What `bench fused` times: real models' shapes on a GPU, tiny ones on a CPU."""
    if cpu:
        return _of_model((1, 4), 256, 704, 1000, "fp32")
    return _of_model((1, 128, LARGE), 2048, 8192, 128_256, "bf16")


def check_rmsnorm(dtype: DType, cpu: bool) -> list[Case]:
    return [
        RmsNormCase(m=m, n=n, residual=residual, dtype=dtype, quantise=quantise)
        for m, n in ((5, 320), (5, 1000), *_random_sizes("rmsnorm", cpu))
        for residual in (False, True)
        for quantise in (None, "fp8")
    ]


def check_gated(dtype: DType, cpu: bool) -> list[Case]:
    sizes = ((5, 320), (5, 1001), *_random_sizes("gated", cpu))
    return [
        GatedCase(m=m, n=n, activation=activation, dtype=dtype) for m, n in sizes for activation in get_args(Activation)
    ]


def _random_sizes(op: str, cpu: bool) -> list[tuple[int, int]]:
    """Rows and columns at random, the same each time, to those of Llama-3.1-8B at the most rows that are timed."""
    rng = random.Random(op)
    return [] if cpu else [(random_size(rng, 1, LARGE), random_size(rng, 1, 14_336)) for _ in range(6)]


def check_rope(dtype: DType, cpu: bool) -> list[Case]:
    rng = random.Random("rope")
    shapes = [(2, 3, 4, 2, 64), (2, 3, 14, 2, 96)]
    appended = [(2, q_len, 4, 2, 64) for q_len in (1, 6)]
    for drawn in () if cpu else (shapes, appended, appended):
        drawn += [_random_rope(rng) for _ in range(4)]
    return [
        *(_rope(dtype, *shape) for shape in shapes),
        *(
            _rope(dtype, *shape, append=True, paged=paged, page_size=page_size)
            for shape in appended
            for paged, page_size in ((False, None), (True, None), (True, 5))
        ),
        *(
            _rope(dtype, *shape, append=True, paged=paged, kv_dtype="fp8")
            for shape in appended
            for paged in (False, True)
        ),
    ]


def _rope(dtype: DType, batch: int, q_len: int, heads: int, kv_heads: int, head_dim: int, **cache: Any) -> RopeCase:
    return RopeCase(batch=batch, q_len=q_len, heads=heads, kv_heads=kv_heads, head_dim=head_dim, dtype=dtype, **cache)


def _random_rope(rng: random.Random) -> tuple[int, int, int, int, int]:
    kv_heads, q_len = rng.choice((1, 2, 8)), random_size(rng, 1, LARGE)
    heads = kv_heads * rng.choice((1, 3, 4, 7))
    return random_size(rng, 1, max(1, min(32, LARGE // q_len))), q_len, heads, kv_heads, rng.choice((64, 96, 128))


def check_lm_head(dtype: DType, cpu: bool) -> list[Case]:
    kinds: tuple[Weights, ...] = (dtype,) if cpu else (dtype, "int8", "fp8", "nvfp4", "int4")
    rng = random.Random("lm_head")
    drawn = (
        []
        if cpu
        else [(rng.randint(1, 16), random_size(rng, 64, 152_064), random_size(rng, 8, 4096, 8)) for _ in range(3)]
    )
    return [
        LmHeadCase(m=m, vocab=vocab, k=k, dtype=dtype, weights=weights, sampling=sampling)
        for m, vocab, k in ((3, 1009, 256), (8, 5003, 1032), *drawn)
        for weights in kinds
        for sampling in get_args(SamplingKind)
    ]


def _of_model(rows: tuple[int, ...], hidden: int, intermediate: int, vocab: int, dtype: DType) -> list[Case]:
    heads, kv_heads = hidden // 64, max(1, hidden // 256)
    return [
        *(
            RmsNormCase(m=m, n=hidden, residual=residual, dtype=dtype, quantise=quantise)
            for m in rows
            for residual, quantise in ((True, None), (False, None), (True, "fp8"))
        ),
        *(
            GatedCase(m=m, n=intermediate, dtype=dtype, activation=activation)
            for m in rows
            for activation in ("silu", "gelu")
        ),
        *(
            RopeCase(
                batch=1, q_len=m, heads=heads, kv_heads=kv_heads, head_dim=64, dtype=dtype, append=append, paged=paged
            )
            for m in rows
            for append, paged in ((False, False), (True, False), (True, True))
        ),
        *(
            LmHeadCase(m=m, vocab=vocab, k=hidden, dtype=dtype, weights=weights, sampling=sampling)
            for m in ((1,) if dtype == "fp32" else (1, 8, 16))
            for weights in heads_weights(dtype)
            for sampling in get_args(SamplingKind)
        ),
    ]


def heads_weights(dtype: DType) -> tuple[Weights, ...]:
    """The types of weight that an LM head is timed in."""
    return (dtype,) if dtype == "fp32" else (dtype, "int8", "fp8", "nvfp4", "int4")
