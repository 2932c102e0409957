"""Shapes of mixture-of-experts layers. Imports without torch."""

import random

from kernels.cases.random_sizes import random_size
from kernels.ops import Case, DType, GroupedCase, Weights


def bench(cpu: bool) -> list[Case]:
    """Mixtral-8x7B (2 of 8 experts) at 1,024 and 4,096 tokens, Qwen3-30B-A3B (8 of 128) at 4,096, in bf16 and at 4,096
    in fp8; Qwen3-30B-A3B in int8 and gpt-oss-20b in MXFP4 at 1 and 8; tiny on a CPU.
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
    few = [case for m in (1, 8) for case in (*_few("int8", m, 128, 8, 768, 2048), *_few("mxfp4", m, 32, 4, 2880, 2880))]
    return [*mixtral, *qwen, *(case.model_copy(update={"scales": "row"}) for case in (*mixtral[2:], *qwen)), *few]


def _few(weights: Weights, m: int, experts: int, chosen: int, inner: int, hidden: int) -> list[GroupedCase]:
    """Gate and up, and down, of `m` tokens as few rows multiply them; in MXFP4 as gpt-oss has them."""
    gates, added = ("swigluoai", "bias") if weights == "mxfp4" else ("swiglu", "none")
    case = GroupedCase(rows=m * chosen, experts=experts, n=hidden, k=inner, weights=weights)
    gathered = {"n": inner, "k": hidden, "epilogue": gates, "gathers": True}
    return [case.model_copy(update=gathered), case.model_copy(update={"epilogue": added})]


def check(dtype: DType, cpu: bool) -> list[Case]:
    """Few and many experts, fewer rows than experts, odd sizes, no rows; then sizes at random to those that are timed,
    128 experts' weights bounded by 4 GiB. On a GPU in fp8 as well, and in int8 and MXFP4.
    """
    shapes = ((0, 4, 64, 64), (5, 16, 72, 136), (300, 4, 264, 320), (1000, 60, 200, 72))
    rng = random.Random(f"grouped {dtype}")
    drawn = () if cpu else tuple(_random_cases(rng) for _ in range(8))
    plain = [
        GroupedCase(rows=rows, experts=experts, n=n, k=k, dtype=dtype, epilogue=epilogue)
        for rows, experts, n, k in (*shapes, *drawn)
        for epilogue in ("none", "swiglu")
    ]
    if cpu or dtype == "fp32":
        return [*plain]
    few = [
        GroupedCase(
            rows=rows, experts=experts, n=n, k=k, dtype=dtype, epilogue=epilogue, weights=weights, gathers=gathers
        )
        for weights in ("int8", "mxfp4")
        for epilogue, gathers in (("swiglu", True), ("swigluoai", True), ("none", None), ("bias", None))
        for rows, experts, n, k in (*shapes[1:3], (600, 60, 200, 72))
    ]
    return [
        *plain,
        *few,
        *(case.model_copy(update={"scales": "row", "k": case.k // 16 * 16}) for case in plain if case.k > 15),
    ]


def _random_cases(rng: random.Random) -> tuple[int, int, int, int]:
    experts, k = random_size(rng, 1, 128), random_size(rng, 8, 14_336, 8)
    widest = min(14_336, (1 << 30) // (experts * k) // 8 * 8)
    return random_size(rng, 1, 32_768), experts, random_size(rng, 8, max(8, widest), 8), k
