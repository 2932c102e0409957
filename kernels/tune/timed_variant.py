"""The record of a timed variant, shared by the autotuner, bench documents and candidates. Imports without torch."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from kernels.proof.verdict import Gate


class SettledTime(BaseModel):
    """A call's time, cache cold, on a GPU without pauses: median in ms and 95 % interval. `floor_share` is by settled
    ceilings, as in `TimedVariant`; `ratio_to_best_peer` the best peer's time over it.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    ms: float
    ms_low: float
    ms_high: float
    floor_share: float | None = None
    ratio_to_best_peer: float | None = None


class TimedVariant(BaseModel):
    """One variant with one set of params at one case.

    Times are in ms, with the 95 % interval of the median. `error` and `error_limit` are those of the accuracy gate.
    `floor_share` is the roofline floor over the time, None where that is more than can be
    (`kernels.measure.roofline.doubt`). `kernels` are the names seen on the device. `reason` is a sentence.
    """

    model_config = ConfigDict(extra="forbid")

    op: str
    case: Any
    variant: str
    params: dict[str, Any] = {}
    peer: bool
    ms: float | None = None
    ms_low: float | None = None
    ms_high: float | None = None
    tflops: float | None = None
    gbps: float | None = None
    floor_share: float | None = None
    gate: Gate
    kernels: list[str] = []
    error: float | None = None
    error_limit: float | None = None
    reason: str = ""

    def shared(self) -> dict[str, Any]:
        """The fields that every such record has, the case as a dictionary."""
        fields = {name: getattr(self, name) for name in TimedVariant.model_fields}
        return fields | {"case": self.case if isinstance(self.case, dict) else self.case.model_dump()}
