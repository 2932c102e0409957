"""What predictions of all kinds of models share: which plan a variant has, and figures and sentences."""

from kernels.measure.pass_time import MEGAKERNEL
from workers.documents.measurement import Rates
from workers.documents.prediction import PredictedFigure
from workers.documents.workload import Precision, Sla

BATCHED = ("compiled", "cuda_graphs")
"""Runners that no server of this workbench runs: under load they answer batches of those who wait."""
VARIANTS: dict[str, tuple[str, Precision | None]] = {
    "compiled": ("compiled", None),
    "compiled_tuned": ("compiled", None),
    "compiled_max_autotune": ("compiled", None),
    "cuda_graphs": ("cuda_graphs", None),
    "kernels": ("kernels", None),
    "kernels_int8": ("kernels", "int8"),
    "kernels_mxfp4": ("kernels", "mxfp4"),
    "kernels_fp8": ("kernels", "fp8"),
    "megakernel": (MEGAKERNEL, None),
    "megakernel_int8": (MEGAKERNEL, "int8"),
    "megakernel_fp8": (MEGAKERNEL, "fp8"),
    "megakernel_nvfp4": (MEGAKERNEL, "nvfp4"),
    "megakernel_int4": (MEGAKERNEL, "int4"),
    "megakernel_mxfp4": (MEGAKERNEL, "mxfp4"),
}
"""Whole-model variants: the runner whose prediction is theirs, and the precision to which they lower weights."""


def is_excluded(runner: str, weights: str, served: str, workload: Sla) -> bool:
    """Whether the workload excludes every variant of the runner in this precision."""
    plan = (runner, None if weights == served else weights)
    names = {name for name, of in VARIANTS.items() if of == plan}
    return bool(names) and names <= set(workload.constraints.exclude)


def flops(precision: str, rates: Rates) -> float:
    """10¹² a second in a precision, or the highest known rate."""
    return rates.matrix_tflops.get(precision) or max(rates.matrix_tflops.values())


def rate_figure(value: float, unit: str) -> PredictedFigure:
    """A throughput at one request at a time."""
    return PredictedFigure(metric="throughput", unit=unit, value=value)


def waiting_clients(workload: Sla) -> list[str]:
    """Why latencies are not predicted, in a sentence; [] where they are."""
    clients = workload.traffic.concurrency
    return [f"No latency is predicted where {clients} clients wait for each other."] if clients > 1 else []
