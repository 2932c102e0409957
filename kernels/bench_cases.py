"""The shapes that `check` and `bench` use: those of real models on a GPU, tiny ones on a CPU. Imports without torch."""

from kernels.ops import AttentionCase, Case, GatedCase, LinearCase, LmHeadCase, RmsNormCase, RopeCase

GROUPS: dict[str, tuple[str, ...]] = {
    "attention": ("attention",),
    "gemm": ("linear",),
    "fused": ("rmsnorm", "gated", "rope", "lm_head"),
    "decode": ("model",),
}
"""The ops that a bench group covers."""

TOKENS = 16_384
"""Tokens of a prefill attention case in all, as attention papers count."""


def cases(group: str, cpu: bool) -> list[Case]:
    """The cases of a group; `decode` has none here, since a model is a case of its own."""
    match group:
        case "attention":
            return _attention_cpu() if cpu else _attention()
        case "gemm":
            return _gemm_cpu() if cpu else _gemm()
        case "fused":
            return _fused(*((4, 256, 704, 1000, "fp32") if cpu else (128, 2048, 8192, 128_256, "bf16")))
    return []


def check_cases(op: str, cpu: bool) -> list[Case]:
    """Cases that exercise what an op can be: odd sizes, every epilogue, grouped heads, unequal lengths."""
    dtypes = ("fp32", "bf16") if cpu else ("bf16", "fp16", "fp32")
    found: list[Case] = []
    for dtype in dtypes:
        match op:
            case "linear":
                found += [
                    LinearCase(m=m, n=192, k=320, dtype=dtype, weights=dtype, epilogue=epilogue)
                    for m in (1, 33)
                    for epilogue in ("none", "bias", "residual", "swiglu", "rmsnorm_scale")
                ]
                found += [LinearCase(m=m, n=192, k=320, dtype=dtype, weights="int8") for m in (1, 33)]
            case "attention":
                found += [_small_attention(dtype, *each) for each in ((64, 64, None), (1, 77, None), (9, 77, 16))]
            case "rmsnorm":
                found += [RmsNormCase(m=5, n=320, residual=residual, dtype=dtype) for residual in (False, True)]
            case "gated":
                found += [GatedCase(m=5, n=320, activation=each, dtype=dtype) for each in ("silu", "gelu")]
            case "rope":
                found += [RopeCase(batch=2, q_len=7, heads=4, kv_heads=2, head_dim=64, dtype=dtype)]
            case "lm_head":
                found += [LmHeadCase(m=3, vocab=1009, k=256, dtype=dtype, weights=dtype)]
    return found


def _small_attention(dtype: str, q_len: int, kv_len: int, window: int | None) -> Case:
    return AttentionCase(
        kind="decode" if q_len == 1 else "prefill",
        head_dim=64,
        heads=8,
        kv_heads=2,
        batch=2,
        q_len=q_len,
        kv_len=kv_len,
        dtype=dtype,
        kv_dtype=dtype,
        window=window,
    )


def _attention() -> list[Case]:
    prefill = [
        AttentionCase(
            kind="prefill",
            head_dim=head_dim,
            heads=2048 // head_dim,
            kv_heads=2048 // head_dim,
            batch=TOKENS // length,
            q_len=length,
            kv_len=length,
            causal=causal,
        )
        for head_dim in (64, 128)
        for length in (1024, 4096, 16_384)
        for causal in (False, True)
    ]
    decode = [
        AttentionCase(kind="decode", head_dim=64, heads=32, kv_heads=8, batch=batch, q_len=1, kv_len=kv_len)
        for batch, kv_len in ((1, 192), (1, 4096), (16, 4096), (64, 8192))
    ]
    return [*prefill, *decode]


def _attention_cpu() -> list[Case]:
    shapes = (("prefill", 128, 128), ("decode", 1, 192))
    return [
        AttentionCase(
            kind=kind, head_dim=64, heads=4, kv_heads=2, batch=1, q_len=q, kv_len=kv, dtype="fp32", kv_dtype="fp32"
        )
        for kind, q, kv in shapes
    ]


def _gemm() -> list[Case]:
    shapes = (
        *((m, 2048, 2048) for m in (1, 128)),
        *((m, 16_384, 2048) for m in (1, 16, 128, 1024)),
        *((m, 2048, 8192) for m in (1, 128)),
        (4096, 4096, 4096),
        (8192, 28_672, 4096),
        (8192, 4096, 14_336),
        (8192, 8192, 8192),
    )
    gated = [LinearCase(m=m, n=8192, k=2048, epilogue="swiglu") for m in (1, 128, 1024)]
    return [*(LinearCase(m=m, n=n, k=k) for m, n, k in shapes), *gated]


def _gemm_cpu() -> list[Case]:
    shapes = [(m, n, k) for m in (1, 64) for n, k in ((256, 256), (1024, 256))]
    plain = [LinearCase(m=m, n=n, k=k, dtype="fp32", weights="fp32") for m, n, k in shapes]
    return [*plain, LinearCase(m=64, n=1024, k=256, dtype="fp32", weights="int8")]


def _fused(m: int, hidden: int, intermediate: int, vocab: int, dtype: str) -> list[Case]:
    return [
        *(RmsNormCase(m=rows, n=hidden, residual=True, dtype=dtype) for rows in (1, m)),
        *(GatedCase(m=rows, n=intermediate, dtype=dtype) for rows in (1, m)),
        RopeCase(batch=1, q_len=m, heads=hidden // 64, kv_heads=max(1, hidden // 256), head_dim=64, dtype=dtype),
        LmHeadCase(m=1, vocab=vocab, k=hidden, dtype=dtype, weights=dtype),
    ]
