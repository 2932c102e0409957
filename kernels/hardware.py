"""GPU specifications by class, without torch: NVIDIA's datasheets, dense rates, and files of `bring-up`."""

import json
import os
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path

ENTRIES = "KERNELS_GPUS"
"""The environment variable that names a folder of GPU entries, one JSON file each."""

WITHOUT = "KERNELS_WITHOUT_GPUS"
"""The environment variable by which `bring-up --stranger` leaves out the known GPUs."""

NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
"""The environment of processes that use several GPUs: NCCL, torch and NVSHMEM leave NVLink multicast off."""


@dataclass(frozen=True)
class Gpu:
    """A GPU class. Rates in TFLOP/s and TB/s, power in W, memory in GiB. `sm` is compute capability × 10.

    `matrix_flop_per_clock` is what one SM's matrix units do in bf16 per clock; with the highest SM clock it bounds
    what any kernel can ever reach. The CPU has no such figures: 0 means unknown. `source` tells where the rates are
    from: `datasheet`, or `measured` in bursts by the bring-up.
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
    source: str = "datasheet"

    def __post_init__(self) -> None:
        """Raises ValueError where a figure is no number, or negative, or a name no text."""
        for field in fields(self):
            value, expected = getattr(self, field.name), field.type
            if not isinstance(value, str) if expected is str else isinstance(value, bool | str) or value < 0:
                raise ValueError(f"{field.name} is {value!r}")

    @property
    def impossible_tflops(self) -> float:
        """bf16 TFLOP/s that the chip can never exceed: SMs × FLOP per clock × highest clock (0: unknown)."""
        return self.sms * self.matrix_flop_per_clock * self.max_clock_ghz / 1000

    @property
    def memory_words(self) -> str:
        """`memory_gib` with its source: `131.3 GiB by its datasheet`. A driver tells a little more or less."""
        return f"{self.memory_gib:.1f} GiB" + (" by its datasheet" if self.source == "datasheet" else "")


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
"""The GPUs by class: datasheet figures, then the entries in the folder that KERNELS_GPUS names."""

GENERATIONS = (80, 86, 89, 90, 100, 120)
"""The compute capabilities (× 10) that kernels are compiled for: Ampere, Ada, Hopper, Blackwell."""


def generation(sm: int) -> Gpu:
    """A GPU of this compute capability, without any other fact; the variants' `serves` look at no more."""
    return Gpu(f"sm_{sm}", f"sm_{sm}", sm, 0, 0, 0, 0, 0, 0)


def class_of(name: str) -> str:
    """The class of a GPU by its driver's name: `NVIDIA A100-SXM4-80GB` is `a100`, an unknown one its name in lower
    case: `NVIDIA RTX 6000 Ada` is `rtx-6000-ada`.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-").removeprefix("nvidia-")
    classes = [name for name in GPUS if name != "cpu" and f"-{name}-" in f"-{slug}-"]
    return max(classes, key=len, default=slug)


def read_entry(path: Path) -> Gpu:
    """The GPU that a file describes. Raises ValueError in a sentence when it is no GPU entry."""
    try:
        return Gpu(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is no GPU entry: {error}") from None


def write_entry(path: Path, gpu: Gpu) -> None:
    """Writes the entry as JSON, in the form that `read_entry` reads."""
    path.write_text(json.dumps(asdict(gpu), indent=1) + "\n")


if os.environ.get(WITHOUT):
    GPUS = {"cpu": GPUS["cpu"]}
if os.environ.get(ENTRIES):
    GPUS |= {gpu.gpu_class: gpu for gpu in map(read_entry, sorted(Path(os.environ[ENTRIES]).glob("*.json")))}
