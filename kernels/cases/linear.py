"""Shapes of matrix products. Imports without torch."""

import random
from typing import get_args

from kernels.ops import Case, DType, Epilogue, LinearCase, Scales, Weights

DRAWN = 16
"""Cases that `check` draws at random for each dtype."""


MODELS: dict[str, tuple[tuple[int, int], ...]] = {
    "llama-3.2-1b": ((3072, 2048), (2048, 2048), (16_384, 2048), (2048, 8192)),
    "qwen2.5-1.5b": ((2048, 1536), (1536, 1536), (17_920, 1536), (1536, 8960)),
    "llama-3.1-8b": ((6144, 4096), (4096, 4096), (28_672, 4096), (4096, 14_336)),
}
"""(n, k) of q, k, v packed; o; gate, up packed; down."""

STREAMED: tuple[Weights, ...] = ("bf16", "fp8", "nvfp4", "int4")
"""Weights that a decode step may stream."""


def bench(cpu: bool) -> list[Case]:
    """What `bench gemm` times: real models' shapes on a GPU, tiny ones on a CPU."""
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
    return [*(LinearCase(m=m, n=n, k=k) for m, n, k in shapes), *gated, *_fused(), *_scaled(), *_decode(), *_prompt()]


def _decode() -> list[Case]:
    """The products of a decode step, in every type of weight."""
    shapes = [shape for model in MODELS.values() for shape in model]
    return [
        LinearCase(m=m, n=n, k=k, weights=weights) for m in (1, 4, 8, 16) for n, k in shapes for weights in STREAMED
    ]


def _prompt() -> list[Case]:
    """The products of a short prompt."""
    shapes = [shape for model in MODELS.values() for shape in model]
    return [LinearCase(m=m, n=n, k=k) for m in (32, 64, 128, 256) for n, k in shapes]


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
    """Large products of e4m3 operands, by the granularity of their scales."""
    shapes = ((1024, 16_384, 2048), (8192, 28_672, 4096), (8192, 4096, 14_336), (8192, 8192, 8192))
    return [
        LinearCase(m=m, n=n, k=k, weights="fp8", scales=scales) for scales in get_args(Scales) for m, n, k in shapes
    ]


def check(dtype: DType, cpu: bool) -> list[Case]:
    """What `check linear` proves in one dtype: odd sizes, every epilogue, int8 weights, shapes drawn at random."""
    floating = [
        LinearCase(m=m, n=192, k=320, dtype=dtype, weights=dtype, epilogue=epilogue)
        for m in (1, 33)
        for epilogue in ("none", "bias", "residual", "swiglu", "rmsnorm_scale")
    ]
    drawn = [] if cpu else [*_drawn(dtype), *_streamed(dtype)]
    return [*floating, *(LinearCase(m=m, n=192, k=320, dtype=dtype, weights="int8") for m in (1, 33)), *drawn]


def _drawn(dtype: DType) -> list[Case]:
    """The same shapes each time: m to 2,300, n and k to 4,100, the epilogues and granularities of scales in turn."""
    dice = random.Random(20261120)
    scaled = [
        LinearCase(
            m=dice.randint(1, 2300), n=16 * dice.randint(1, 256), k=512 * dice.randint(1, 8), dtype=dtype,
            weights="fp8", epilogue=epilogue, scales=scales,
        )
        for scales in get_args(Scales)
        for epilogue in ("none", "bias", "residual")
    ]  # fmt: skip
    plain = [
        LinearCase(
            m=dice.randint(1, 2300), n=8 * dice.randint(1, 512), k=8 * dice.randint(1, 512), dtype=dtype, weights=dtype,
            epilogue=get_args(Epilogue)[position % len(get_args(Epilogue))],
        )
        for position in range(DRAWN)
    ]  # fmt: skip
    return [*plain, *scaled]


def _streamed(dtype: DType) -> list[Case]:
    """Few rows, and weights in few bits."""
    dice = random.Random(16)
    return [
        LinearCase(
            m=dice.randint(1, 16), n=8 * dice.randint(1, 512), k=8 * dice.randint(1, 1024), dtype=dtype,
            weights=weights, epilogue=epilogue,
        )
        for weights in STREAMED[1:]
        for epilogue in get_args(Epilogue)[:-1]
    ]  # fmt: skip


def _tiny() -> list[Case]:
    shapes = [(m, n, k) for m in (1, 64) for n, k in ((256, 256), (1024, 256))]
    plain = [LinearCase(m=m, n=n, k=k, dtype="fp32", weights="fp32") for m, n, k in shapes]
    return [*plain, LinearCase(m=64, n=1024, k=256, dtype="fp32", weights="int8")]
