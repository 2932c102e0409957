"""The device at hand: what it is, its clocks while something runs, and its measured ceilings."""

from typing import Any


def here(index: int = 0) -> dict[str, Any]:
    """Facts of the device and software, in the shape of `workers.documents.measurement.Environment`."""
    from kernels import device_facts

    return device_facts.here(index)


def measure_ceilings(device: str | None = None, quick: bool = True) -> dict[str, Any]:
    """Measured limits, in the shape of `workers.documents.measurement.Ceilings`: TB/s, TFLOP/s, µs."""
    from kernels import device_limits

    return device_limits.measure(device, quick)
