"""Shapes of mixture-of-experts layers. Imports without torch."""

import random

from kernels.cases.drawing import size
from kernels.ops import Case, DType, GroupedCase


def bench(cpu: bool) -> list[Case]:
    """Mixtral-8x7B (2 of 8 experts) at 1,024 and 4,096 tokens, Qwen3-30B-A3B (8 of 128) at 4,096, in bf16 and at 4,096
    in fp8; tiny on a CPU.
    """
    if cpu:
        return [GroupedCase(rows=96, experts=4, n=128, k=256, dtype="fp32", epilogue="swiglu")]
    mixtral = [
        GroupedCase(rows=2 * tokens, experts=8, n=n, k=k, epilogue=epilogue)
        for tokens in (1024, 4096)
        for n, k, epilogue in ((14_336, 4096, "swiglu"), (4096, 14_336, "none"))
    ]
    qwen = [
        GroupedCase(rows=8 * 4096, experts=128, n=n, k=k, epilogue=epilogue)
        for n, k, epilogue in ((768, 2048, "swiglu"), (2048, 768, "none"))
    ]
    return [*mixtral, *qwen, *(case.model_copy(update={"scales": "row"}) for case in (*mixtral[2:], *qwen))]


def check(dtype: DType, cpu: bool) -> list[Case]:
    """Few and many experts, fewer rows than experts, odd sizes, no rows; then sizes at random to those that are timed,
    128 experts' weights bounded by 4 GiB. On a GPU in fp8 as well.
    """
    shapes = ((0, 4, 64, 64), (5, 16, 72, 136), (300, 4, 264, 320), (1000, 60, 200, 72))
    draw = random.Random(f"grouped {dtype}")
    drawn = () if cpu else tuple(_drawn(draw) for _ in range(8))
    plain = [
        GroupedCase(rows=rows, experts=experts, n=n, k=k, dtype=dtype, epilogue=epilogue)
        for rows, experts, n, k in (*shapes, *drawn)
        for epilogue in ("none", "swiglu")
    ]
    if cpu or dtype == "fp32":
        return [*plain]
    return [
        *plain,
        *(case.model_copy(update={"scales": "row", "k": case.k // 16 * 16}) for case in plain if case.k > 15),
    ]


def _drawn(draw: random.Random) -> tuple[int, int, int, int]:
    experts, k = size(draw, 1, 128), size(draw, 8, 14_336, 8)
    widest = min(14_336, (1 << 30) // (experts * k) // 8 * 8)
    return size(draw, 1, 32_768), experts, size(draw, 8, max(8, widest), 8), k
