"""Shapes of norms, gates, rotary embeddings and LM heads. Imports without torch."""

from typing import get_args

from kernels.ops import Case, DType, GatedCase, LmHeadCase, RmsNormCase, RopeCase, Sampling, Weights

LARGE = 16_384
"""Rows at which an op is bound by memory alone: its tensors are several times the L2."""


def bench(cpu: bool) -> list[Case]:
    """What `bench fused` times: real models' shapes on a GPU, tiny ones on a CPU."""
    if cpu:
        return _of_model((1, 4), 256, 704, 1000, "fp32")
    return _of_model((1, 128, LARGE), 2048, 8192, 128_256, "bf16")


def check_rmsnorm(dtype: DType, cpu: bool) -> list[Case]:
    return [
        RmsNormCase(m=5, n=n, residual=residual, dtype=dtype, quantise=quantise)
        for n in (320, 1000)
        for residual in (False, True)
        for quantise in (None, "fp8")
    ]


def check_gated(dtype: DType, cpu: bool) -> list[Case]:
    return [GatedCase(m=5, n=n, activation=each, dtype=dtype) for n in (320, 1001) for each in ("silu", "gelu")]


def check_rope(dtype: DType, cpu: bool) -> list[Case]:
    turned = [
        RopeCase(batch=2, q_len=3, heads=heads, kv_heads=2, head_dim=head_dim, dtype=dtype)
        for heads, head_dim in ((4, 64), (14, 96))
    ]
    appended = [
        RopeCase(
            batch=2,
            q_len=q_len,
            heads=4,
            kv_heads=2,
            head_dim=64,
            append=True,
            paged=paged,
            page_size=size,
            dtype=dtype,
        )
        for q_len in (1, 6)
        for paged, size in ((False, None), (True, None), (True, 5))
    ]
    return [*turned, *appended]


def check_lm_head(dtype: DType, cpu: bool) -> list[Case]:
    kinds: tuple[Weights, ...] = (dtype,) if cpu else (dtype, "fp8", "nvfp4", "int4")
    return [
        LmHeadCase(m=m, vocab=vocab, k=k, dtype=dtype, weights=weights, sampling=sampling)
        for m, vocab, k in ((3, 1009, 256), (8, 5003, 1032))
        for weights in kinds
        for sampling in get_args(Sampling)
    ]


def _of_model(rows: tuple[int, ...], hidden: int, intermediate: int, vocab: int, dtype: DType) -> list[Case]:
    heads, kv_heads = hidden // 64, max(1, hidden // 256)
    return [
        *(
            RmsNormCase(m=m, n=hidden, residual=residual, dtype=dtype, quantise=quantise)
            for m in rows
            for residual, quantise in ((True, None), (False, None), (True, "fp8"))
        ),
        *(GatedCase(m=m, n=intermediate, dtype=dtype, activation=each) for m in rows for each in ("silu", "gelu")),
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
            for sampling in get_args(Sampling)
        ),
    ]


def heads_weights(dtype: DType) -> tuple[Weights, ...]:
    """The types of weight that an LM head is timed in."""
    return (dtype,) if dtype == "fp32" else (dtype, "fp8", "nvfp4", "int4")
