"""GPU specifications from the datasheets, and the device at hand. Imports without torch; `here` imports it.

Sources: NVIDIA's datasheets for H100 SXM, H200 SXM, B200, A100 80 GB SXM and L40S; dense rates, no sparsity.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """A GPU class. Rates in TFLOP/s and TB/s, power in W, memory in GiB. `sm` is compute capability × 10.

    `matrix_flop_per_clock` is what one SM's matrix units do in bf16 per clock; with the highest SM clock it bounds
    what any kernel can ever reach. The CPU has no such figures: 0 means unknown.
    """

    gpu_class: str
    name: str
    sm: int
    sms: int
    bf16_tflops: float
    fp8_tflops: float
    memory_tbps: float
    memory_gib: float
    watts: float
    max_clock_ghz: float = 0.0
    matrix_flop_per_clock: int = 0

    @property
    def impossible_tflops(self) -> float:
        """bf16 TFLOP/s that the chip can never exceed: SMs × FLOP per clock × highest clock (0: unknown)."""
        return self.sms * self.matrix_flop_per_clock * self.max_clock_ghz / 1000


GPUS: dict[str, Gpu] = {
    gpu.gpu_class: gpu
    for gpu in (
        Gpu("h200", "NVIDIA H200", 90, 132, 989, 1979, 4.8, 141e9 / 2**30, 700, 1.98, 4096),
        Gpu("h100", "NVIDIA H100", 90, 132, 989, 1979, 3.35, 80e9 / 2**30, 700, 1.98, 4096),
        Gpu("b200", "NVIDIA B200", 100, 148, 2250, 4500, 7.7, 180e9 / 2**30, 1000, 1.965, 8192),
        Gpu("a100", "NVIDIA A100", 80, 108, 312, 0, 2.04, 80e9 / 2**30, 400, 1.41, 2048),
        Gpu("l40s", "NVIDIA L40S", 89, 142, 362, 733, 0.864, 48e9 / 2**30, 350, 2.52, 1024),
        Gpu("cpu", "CPU", 0, 0, 0, 0, 0, 0, 0),
    )
}
"""Datasheet figures by GPU class."""
