"""The device, the libraries, and the clocks and power while a stage measured."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernels.measure.environment import environment_info
from kernels.measure.telemetry import TelemetrySampler
from workers.documents.measurement import Environment
from workers.documents.stages import StageInput
from workers.measuring.served_model import device_of

SECONDS_BETWEEN_SAMPLES = {"cuda": 0.05, "cpu": 0.5}
"""Reading a CPU's clock slows the measurement down, so a CPU is sampled less often."""


@contextmanager
def watched(document: StageInput) -> Iterator[Callable[[], Environment]]:
    """Samples clocks and power inside the block; the yielded function then gives the Environment with them.

    Of several GPUs the clock is the first one's, the power is that of all, and other programs are looked for on each.
    """
    device = device_of(document.gpu_class)
    facts = environment_info(device=device)
    interval = SECONDS_BETWEEN_SAMPLES[device]
    with TelemetrySampler(device, interval=interval, gpus=document.gpus) as telemetry:
        yield lambda: Environment.model_validate(facts | {"telemetry": telemetry.summary()})
