"""Shapes of matrix products. Imports without torch."""

import random
from typing import get_args

from kernels.cases.random_sizes import random_size
from kernels.ops import Case, DType, Epilogue, LinearCase, Scales, Weights
from kernels.quant.formats import INT4

MODELS: dict[str, tuple[tuple[int, int], ...]] = {
    "llama-3.2-1b": ((3072, 2048), (2048, 2048), (16_384, 2048), (2048, 8192)),
    "qwen2.5-1.5b": ((2048, 1536), (1536, 1536), (17_920, 1536), (1536, 8960)),
    "llama-3.1-8b": ((6144, 4096), (4096, 4096), (28_672, 4096), (4096, 14_336)),
}
"""(n, k) of q, k, v packed; o; gate, up packed; down."""

STREAMED: tuple[Weights, ...] = ("bf16", "int8", "fp8", "nvfp4", "int4")
"""Weights that a decode step may stream."""


SCALED: tuple[tuple[Weights, Scales], ...] = (
    ("fp8", "tensor"), ("fp8", "row"), ("fp8", "block"), ("fp8", "block32"), ("nvfp4", "block16"),
)  # fmt: skip
"""Operands with scales: fp8 in float32 scales, MXFP8, NVFP4."""


def bench(cpu: bool) -> list[Case]:
    """What `bench gemm` times, each case once: real models' shapes on a GPU, tiny ones on a CPU."""
    if cpu:
        return _tiny()
    shapes = (
        *((m, 2048, 2048) for m in (1, 128)),
        *((m, 16_384, 2048) for m in (1, 16, 128, 1024)),
        *((m, 2048, 8192) for m in (1, 128)),
        (1024, 6144, 4096),
        (4096, 4096, 4096),
        (8192, 28_672, 4096),
        (8192, 4096, 14_336),
        (8192, 8192, 8192),
    )
    gated = [LinearCase(m=m, n=8192, k=2048, epilogue="swiglu") for m in (1, 128, 1024)]
    plain = [LinearCase(m=m, n=n, k=k) for m, n, k in shapes]
    return list({case.key: case for case in (*plain, *gated, *_fused(), *_scaled(), *_decode(), *_prompt())}.values())


def _decode() -> list[Case]:
    """The products of a decode step, in every type of weight."""
    shapes = [shape for model in MODELS.values() for shape in model]
    return [
        LinearCase(m=m, n=n, k=k, weights=weights) for m in (1, 4, 8, 16) for n, k in shapes for weights in STREAMED
    ]


def _prompt() -> list[Case]:
    """The products of a short prompt."""
    shapes = [shape for model in MODELS.values() for shape in model]
    precisions: tuple[Weights, ...] = ("bf16", "int8")
    return [
        LinearCase(m=m, n=n, k=k, weights=precision)
        for m in (32, 64, 128, 256)
        for n, k in shapes
        for precision in precisions
    ]


def _fused() -> list[Case]:
    """Llama-3.1-8B's products at 4,096 tokens, each with the work that follows or precedes it."""
    return [
        LinearCase(m=4096, n=6144, k=4096, epilogue="bias"),
        LinearCase(m=4096, n=6144, k=4096, epilogue="rmsnorm_scale"),
        LinearCase(m=4096, n=4096, k=4096, epilogue="residual"),
        LinearCase(m=4096, n=14_336, k=4096, epilogue="swiglu"),
        LinearCase(m=4096, n=14_336, k=4096, epilogue="quantise"),
    ]


def _scaled() -> list[Case]:
    """Large products of operands with scales, by their granularity."""
    shapes = ((1024, 16_384, 2048), (8192, 28_672, 4096), (8192, 4096, 14_336), (8192, 8192, 8192))
    return [
        LinearCase(m=m, n=n, k=k, weights=weights, scales=scales) for weights, scales in SCALED for m, n, k in shapes
    ]


def check(dtype: DType, cpu: bool) -> list[Case]:
    """What `check linear` proves in one dtype: odd sizes, every epilogue, int8 weights, shapes drawn at random."""
    floating = [
        LinearCase(m=m, n=192, k=320, dtype=dtype, weights=dtype, epilogue=epilogue)
        for m in (1, 33)
        for epilogue in ("none", "bias", "residual", "swiglu", "rmsnorm_scale")
    ]
    drawn = (
        []
        if cpu
        else [*_random_cases(dtype), *_normed(dtype), *_random_scaled_cases(dtype), *_streamed(dtype), *_named(dtype)]
    )
    return [*floating, *(LinearCase(m=m, n=192, k=320, dtype=dtype, weights="int8") for m in (1, 33)), *drawn]


def _random_cases(dtype: DType) -> list[Case]:
    """Fixed shapes, up to the largest that is timed. Epilogues alternate; each has a small and a large m."""
    rng = random.Random(20261120)
    return [
        LinearCase(
            m=random_size(rng, low, high), n=random_size(rng, 8, 28_672, 8),
            k=random_size(rng, 8, 14_336, 8), dtype=dtype, weights=dtype,
            epilogue=epilogue,
        )
        for epilogue in get_args(Epilogue)
        for low, high in ((1, 16), (17, 256), (257, 8192), (257, 8192))
    ]  # fmt: skip


def _normed(dtype: DType) -> list[Case]:
    """The products of a server's step that normalise their rows: q, k, v packed, and gate, up."""
    (qkv, _, gate_up, _), (with_bias, _, wider, _) = MODELS["llama-3.2-1b"], MODELS["qwen2.5-1.5b"]
    return [
        LinearCase(m=m, n=n, k=k, dtype=dtype, weights=dtype, epilogue=epilogue)
        for m in (32, 64)
        for (n, k), epilogue in (
            (qkv, "rmsnorm_scale"),
            (with_bias, "rmsnorm_scale_bias"),
            ((gate_up[0] // 2, gate_up[1]), "rmsnorm_scale_swiglu"),
            ((wider[0] // 2, wider[1]), "rmsnorm_scale_swiglu"),
        )
    ]


def _random_scaled_cases(dtype: DType) -> list[Case]:
    rng = random.Random(8)
    return [
        LinearCase(
            m=random_size(rng, 1, 8192), n=random_size(rng, 16, 28_672, 16),
            k=random_size(rng, 512, 14_336, 512), dtype=dtype,
            weights=weights, epilogue=epilogue, scales=scales,
        )
        for weights, scales in SCALED
        for epilogue in ("none", "none", "bias", "residual")
    ]  # fmt: skip


def _streamed(dtype: DType) -> list[Case]:
    """Few rows, and weights in few bits."""
    rng = random.Random(16)
    return [
        LinearCase(
            m=rng.randint(1, 16), n=random_size(rng, 8, 28_672, 8), k=random_size(rng, 8, 14_336, 8), dtype=dtype,
            weights=weights, epilogue=epilogue,
        )
        for weights in (*STREAMED[1:], *INT4[1:])
        for epilogue in get_args(Epilogue)[:-1]
    ]  # fmt: skip


def _named(dtype: DType) -> list[Case]:
    """Some of the cases that are timed, drawn from them all; the largest product always."""
    timed = bench(cpu=False)
    drawn = [max(timed, key=lambda case: case.flops), *random.Random(4).sample(timed, 12)]
    return [
        case.model_copy(update={"dtype": dtype} | ({"weights": dtype} if case.weights == "bf16" else {}))
        for case in drawn
        if isinstance(case, LinearCase)
    ]


def _tiny() -> list[Case]:
    shapes = [(m, n, k) for m in (1, 64) for n, k in ((256, 256), (1024, 256))]
    plain = [LinearCase(m=m, n=n, k=k, dtype="fp32", weights="fp32") for m, n, k in shapes]
    return [*plain, LinearCase(m=64, n=1024, k=256, dtype="fp32", weights="int8")]
