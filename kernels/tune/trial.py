"""One variant with one set of params, tried for one case."""

import hashlib
import json
from typing import Any, Self

from kernels.measure.roofline import doubt
from kernels.measure.timing import Timing
from kernels.ops import Case
from kernels.registry import Variant
from kernels.tune.timed_variant import SettledTime, TimedVariant


class Trial(TimedVariant):
    """One variant and its params, tried for a case. `raced`: timed against others, its `kernels` known. `quantisation`
    is the relative change that rounding the inputs alone causes. `late`: no time was left to try it.
    """

    case: Case
    lossy: bool
    quantisation: float | None = None
    floor_ms: float | None = None
    host_us: float | None = None
    settled: SettledTime | None = None
    raced: bool = False
    chosen: bool = False
    late: bool = False

    @classmethod
    def of(cls, case: Case, variant: Variant, params: dict[str, Any], reason: str = "") -> Self:
        """A trial that is not proven yet. `reason` says why it is refused."""
        return cls(
            op=case.op, case=case, variant=variant.name, params=params, peer=variant.peer, lossy=variant.lossy,
            gate="refused", reason=reason,
        )  # fmt: skip

    @property
    def id(self) -> str:
        """A short digest of case, variant and params, equal in every run."""
        text = json.dumps([self.case.key, self.variant, self.params], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """`skinny {'splits': 4} for linear m=1 n=3072 …`"""
        params = f" {self.params}" if self.params else ""
        return f"{self.variant}{params} for {self.case.key.removeprefix('op=')}"

    @property
    def doubt(self) -> str:
        """A sentence where its time lies so far below its floor that one of the two is wrong; "" otherwise."""
        return doubt(self.floor_ms, self.ms) if self.ms else ""

    def take(self, timing: Timing, floor: float | None) -> None:
        """Stores the time and the figures derived from it."""
        self.ms, self.ms_low, self.ms_high = timing.ms, timing.low, timing.high
        if timing.ms > 0:
            self.tflops, self.gbps = self.case.flops / timing.ms / 1e9, self.case.least_bytes / timing.ms / 1e6
            self.floor_ms = floor
            self.floor_share = floor / timing.ms if floor and not self.doubt else None

    def take_settled(self, timing: Timing, floor: float | None) -> None:
        """Stores the time of calls without pauses; `floor` is by the settled ceilings."""
        share = floor / timing.ms if floor and not doubt(floor, timing.ms) else None
        self.settled = SettledTime(ms=timing.ms, ms_low=timing.low, ms_high=timing.high, floor_share=share)
