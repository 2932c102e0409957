"""Energy of what one side served while nothing else ran on its GPU."""

from workers.documents.measurement import Energy, Telemetry

LARGEST_GAP_S = 3.0
"""The longest time between two readings of power. What a device drew in a longer one is not known."""


def energy_of(seen: Telemetry, per_second: float) -> Energy:
    """Joules for each of what was given `per_second`: mean watts / per_second.

    `seen` is of a time in which one side alone was served. Its mean is weighted by time (`power_record` in
    `kernels/measure/telemetry.py`). There are no joules, and a reason, where the device tells no power, where
    more than LARGEST_GAP_S pass between two readings, and where another program used the GPU.
    """
    reason = ""
    if seen.power_w_mean is None:
        reason = "The device tells no power."
    elif seen.power_gap_s is None or seen.power_gap_s > LARGEST_GAP_S:
        gap = "an unknown time" if seen.power_gap_s is None else f"{seen.power_gap_s:.1f} s"
        reason = f"Power was not read for {gap}, and more than {LARGEST_GAP_S:g} s void it."
    elif seen.void:
        reason = seen.void
    joules = seen.power_w_mean / per_second if seen.power_w_mean is not None and not reason else None
    return Energy(joules=joules, watts=seen.power_w_mean, reason=reason)
