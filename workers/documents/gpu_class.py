"""GPU classes: what a workload may ask for and a worker serves. Several GPUs of a class belong to one worker."""

from typing import Literal, get_args

from workers.documents.base import Document

GpuClass = Literal["h200", "h100", "b200", "a100", "l40s", "h200x2", "h200x4", "h100x2", "h100x4", "cpu"]
SEVERAL: dict[str, tuple[str, int]] = {
    "h200x2": ("h200", 2),
    "h200x4": ("h200", 4),
    "h100x2": ("h100", 2),
    "h100x4": ("h100", 4),
}
"""Classes of several GPUs: the class of one of them, and how many there are."""


def single_gpu_class(gpu_class: str) -> str:
    """The class of one GPU: `h200` of `h200x4`; a class of one GPU itself."""
    return SEVERAL.get(gpu_class, (gpu_class, 1))[0]


def gpus_of(gpu_class: str) -> int:
    return SEVERAL.get(gpu_class, (gpu_class, 1))[1]


def class_of_several(gpu: str, gpus: int) -> str:
    """The class of so many GPUs of a class, `h200x4`; "" where there is none."""
    return next((name for name in get_args(GpuClass) if SEVERAL.get(name) == (gpu, gpus)), "")


class OnGpus(Document):
    """What runs on the GPUs of a class: `gpu` is the class of one of them, `gpus` their number."""

    gpu_class: str

    @property
    def gpu(self) -> str:
        return single_gpu_class(self.gpu_class)

    @property
    def gpus(self) -> int:
        return gpus_of(self.gpu_class)


class Feasibility(Document):
    """Whether a GPU class can hold the model, in GiB on each of the fewest GPUs that do; `reason` is a sentence when it
    cannot, and `needs_gib` then of one GPU.
    """

    gpu_class: str
    needs_gib: float
    has_gib: float | None
    feasible: bool
    tensor_parallel_size: Literal[1, 2, 4] = 1
    reason: str = ""
