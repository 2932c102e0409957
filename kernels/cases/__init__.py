"""The shapes that `check` and `bench` use. Imports without torch."""

from collections.abc import Callable

from kernels.cases import attention, fft, fused, grouped, linear
from kernels.ops import Case, DType

GROUPS: dict[str, tuple[str, ...]] = {
    "attention": ("attention", "step_attention"),
    "gemm": ("linear", "grouped"),
    "fused": ("rmsnorm", "gated", "rope", "lm_head"),
    "fft": ("fft_conv",),
    "decode": ("model",),
    "library": ("attention", "step_attention", "linear", "grouped", "rmsnorm", "gated", "rope", "lm_head", "fft_conv"),
}
"""The ops that a bench group covers; `library` is all but whole models."""

_BENCH: dict[str, Callable[[bool], list[Case]]] = {
    "attention": lambda cpu: [*attention.bench(cpu), *attention.bench_step(cpu)],
    "gemm": lambda cpu: [*linear.bench(cpu), *grouped.bench(cpu)],
    "fused": fused.bench,
    "fft": fft.bench,
}
_CHECK: dict[str, Callable[[DType, bool], list[Case]]] = {
    "attention": attention.check,
    "step_attention": attention.check_step,
    "linear": linear.check,
    "grouped": grouped.check,
    "rmsnorm": fused.check_rmsnorm,
    "gated": fused.check_gated,
    "rope": fused.check_rope,
    "lm_head": fused.check_lm_head,
    "fft_conv": fft.check,
}


def cases(group: str, cpu: bool) -> list[Case]:
    """The cases of a group; `decode` has none here, since a model is a case of its own."""
    if group == "library":
        return [case for op in _BENCH for case in cases(op, cpu)]
    return _BENCH[group](cpu) if group in _BENCH else []


def check_cases(op: str, cpu: bool) -> list[Case]:
    """Cases that exercise what an op can be, in every dtype that the device is good for."""
    dtypes: tuple[DType, ...] = ("fp32", "bf16") if cpu else ("bf16", "fp16", "fp32")
    return [case for dtype in dtypes for case in _CHECK[op](dtype, cpu)]
