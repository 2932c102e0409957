"""Shapes of norms, gates, rotary embeddings and LM heads. Imports without torch."""

from kernels.ops import Case, DType, GatedCase, LmHeadCase, RmsNormCase, RopeCase


def bench(cpu: bool) -> list[Case]:
    """What `bench fused` times: real models' shapes on a GPU, tiny ones on a CPU."""
    return _of_model(4, 256, 704, 1000, "fp32") if cpu else _of_model(128, 2048, 8192, 128_256, "bf16")


def check_rmsnorm(dtype: DType, cpu: bool) -> list[Case]:
    return [RmsNormCase(m=5, n=320, residual=residual, dtype=dtype) for residual in (False, True)]


def check_gated(dtype: DType, cpu: bool) -> list[Case]:
    return [GatedCase(m=5, n=320, activation=each, dtype=dtype) for each in ("silu", "gelu")]


def check_rope(dtype: DType, cpu: bool) -> list[Case]:
    return [RopeCase(batch=2, q_len=7, heads=4, kv_heads=2, head_dim=64, dtype=dtype)]


def check_lm_head(dtype: DType, cpu: bool) -> list[Case]:
    return [LmHeadCase(m=3, vocab=1009, k=256, dtype=dtype, weights=dtype)]


def _of_model(m: int, hidden: int, intermediate: int, vocab: int, dtype: DType) -> list[Case]:
    return [
        *(RmsNormCase(m=rows, n=hidden, residual=True, dtype=dtype) for rows in (1, m)),
        *(GatedCase(m=rows, n=intermediate, dtype=dtype) for rows in (1, m)),
        RopeCase(batch=1, q_len=m, heads=hidden // 64, kv_heads=max(1, hidden // 256), head_dim=64, dtype=dtype),
        LmHeadCase(m=1, vocab=vocab, k=hidden, dtype=dtype, weights=dtype),
    ]
