"""Shapes of matrix products. Imports without torch."""

from kernels.ops import Case, DType, Epilogue, LinearCase

EPILOGUES: tuple[Epilogue, ...] = (
    "none",
    "bias",
    "residual",
    "swiglu",
    "rmsnorm_scale",
    "rmsnorm_scale_bias",
    "rmsnorm_scale_swiglu",
)
"""What every floating-point product can end with."""


def bench(cpu: bool) -> list[Case]:
    """What `bench gemm` times: real models' shapes on a GPU, tiny ones on a CPU."""
    if cpu:
        return _tiny()
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


def check(dtype: DType, cpu: bool) -> list[Case]:
    """What `check linear` proves in one dtype: odd sizes, every epilogue, int8 weights."""
    floating = [
        LinearCase(m=m, n=192, k=320, dtype=dtype, weights=dtype, epilogue=epilogue)
        for m in (1, 33)
        for epilogue in EPILOGUES
    ]
    return [*floating, *(LinearCase(m=m, n=192, k=320, dtype=dtype, weights="int8") for m in (1, 33))]


def _tiny() -> list[Case]:
    shapes = [(m, n, k) for m in (1, 64) for n, k in ((256, 256), (1024, 256))]
    plain = [LinearCase(m=m, n=n, k=k, dtype="fp32", weights="fp32") for m, n, k in shapes]
    return [*plain, LinearCase(m=64, n=1024, k=256, dtype="fp32", weights="int8")]
