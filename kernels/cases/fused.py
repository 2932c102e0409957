"""Shapes of norms, gates, rotary embeddings and LM heads. Imports without torch."""

from kernels.ops import Case, DType, GatedCase, LmHeadCase, RmsNormCase, RopeCase

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
    return [LmHeadCase(m=3, vocab=1009, k=256, dtype=dtype, weights=dtype)]


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
        LmHeadCase(m=1, vocab=vocab, k=hidden, dtype=dtype, weights=dtype),
    ]
