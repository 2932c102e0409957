"""The rates of a GPU that predictions start from: measured by a run, or a share of its datasheet's. Without torch."""

from dataclasses import dataclass

from kernels.hardware import GPUS
from kernels.measure.pass_time import KERNEL_US
from workers.documents.gpu_class import single_gpu_class
from workers.documents.measurement import Ceilings, Rates

READ_SHARE = 0.93
"""The share of its datasheet's bandwidth that an H200 reaches when it reads (`ceilings.json`), and an H100
(`h100x4/decode-1b.json`)."""
MATRIX_SHARES = {"bf16": (0.80, 0.69), "fp16": (0.77, 0.66), "fp32": (0.05, 0.05), "fp8": (0.74, 0.63)}
"""The shares of its datasheet's matrix rate that an H200 reaches, in single calls and without a pause
(`ceilings.json`). That rate is the datasheet's for fp8 where the precision is fp8, else the one for bf16."""


@dataclass(frozen=True)
class KnownRates:
    """A GPU's rates in single calls, and `settled`, without a pause between calls.

    `kernel_us` is what a kernel takes, beside its bytes and FLOPs, that waits for the one before it.
    """

    single: Rates
    settled: Rates
    kernel_us: float
    source: str


def rates_of(gpu_class: str, ceilings: Ceilings | None) -> KnownRates | None:
    """The measured rates, or the datasheet's times the shares that an H200 reaches; None where neither is known."""
    gpu = GPUS[single_gpu_class(gpu_class)]
    if ceilings is not None:
        kernel_us = ceilings.launch_us if gpu.gpu_class == "cpu" else KERNEL_US
        source = "measured by the newest run on this class of GPU"
        return KnownRates(ceilings.of_single_calls, ceilings, kernel_us, source)
    if not gpu.memory_tbps:
        return None
    sheet = dict.fromkeys(("bf16", "fp16", "fp32"), gpu.bf16_tflops) | {"fp8": gpu.fp8_tflops}
    if gpu.source == "measured":
        rates = Rates(read_tbps=gpu.memory_tbps, copy_tbps=gpu.memory_tbps, matrix_tflops=sheet)
        return KnownRates(rates, rates, KERNEL_US, "those that its bring-up measured")
    read = READ_SHARE * gpu.memory_tbps
    single, settled = (
        Rates(
            read_tbps=read,
            copy_tbps=read,
            matrix_tflops={name: shares[which] * sheet[name] for name, shares in MATRIX_SHARES.items()},
        )
        for which in (0, 1)
    )
    return KnownRates(single, settled, KERNEL_US, "the share of its datasheet's that an H200 was measured to reach")
