"""How much faster after is than before, in how many processes."""

from typing import Literal

from pydantic import Field

from workers.documents.base import Document
from workers.documents.measurement import Interval

MIN_PROCESSES = 3
"""With fewer processes the interval says nothing of other processes."""


class ProcessMedians(Document):
    """The medians of the first objective's metric in one process, over `pairs` interleaved requests of each side.

    `ratio` is above 1 when after is better.
    """

    before: float
    after: float
    ratio: float
    pairs: int


class Drift(Document):
    """A side whose requests became slower or faster while one process measured: second half over first half."""

    process: int = Field(description="counted from 1")
    side: Literal["before", "after"]
    ratio: float


class Speedup(Document):
    """Ratio of before to after of the first objective's metric, above 1 when after is better, beside the noise floor.

    `processes` are in the order that they ran: verify's own, by whose requests the plan was confirmed, then fresh ones.
    With MIN_PROCESSES of them or more, `ratio` is the geometric mean of their ratios with the interval that contains
    their spread, and `noise` the plan in one process against itself in another. With fewer, both are of the first
    process: `noise` is then a side's odd requests against its even ones.
    Where before and after took `turns`, each of `processes` is two that ran one after the other, one a side.
    """

    metric: str
    ratio: Interval
    noise: Interval
    difference: bool
    processes: list[ProcessMedians] = []
    drifts: list[Drift] = []
    turns: bool = False

    @property
    def across(self) -> bool:
        """Whether the interval contains the spread between processes."""
        return len(self.processes) >= MIN_PROCESSES

    @property
    def scope(self) -> str:
        count = len(self.processes)
        if self.turns:
            return f"over {count} turns of each side"
        return f"over {count} processes, {count - 1} of them fresh" if self.across else "within one process"

    @property
    def noise_sentence(self) -> str:
        return f"Repeats varied {self.noise.low:.3g} to {self.noise.high:.3g}x; smaller differences mean nothing."

    @property
    def drift_words(self) -> str:
        """A sentence about what drifted; "" when nothing did."""
        names, part = {"before": "the baseline", "after": "the plan"}, "turn" if self.turns else "process"
        drifts = [
            f"{names[drift.side]} in {part} {drift.process} by {100 * (drift.ratio - 1):+.0f} %"
            for drift in sorted(self.drifts, key=lambda drift: -abs(drift.ratio - 1))[:3]
        ]
        more = f" and {len(self.drifts) - 3} more" if len(self.drifts) > 3 else ""
        return f"Times drifted while they were measured: {', '.join(drifts)}{more}." if drifts else ""
