"""How late a load generator was itself, and from when on that voids a measurement."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from kernels.load.generator import LoadTrace
from kernels.measure.intervals import percentile

MAX_LAG_MS = 5.0
"""A generator that is later than this at p99 measured itself; its measurement is void."""


def too_late(send_p99: float, loop_p99: float) -> bool:
    """Whether a measurement is void, by the ms at p99 by which requests and ticks were late: an open loop's arrivals
    were not those planned; a closed loop's users paused, which lowers rates and may shorten gaps between tokens.
    """
    return max(send_p99, loop_p99) > MAX_LAG_MS


@dataclass(frozen=True)
class Lag:
    """The generator's own delays in ms, of its latest process: `send` behind an intended time, `loop` of its ticks."""

    send_p50: float
    send_p99: float
    send_max: float
    loop_p99: float
    processes: int

    @classmethod
    def of(cls, rounds: Sequence[LoadTrace]) -> "Lag":
        """The lag of all rounds together; the first processes of each are taken as one, and so on."""
        processes = list(itertools.zip_longest(*(trace.by_process for trace in rounds), fillvalue=LoadTrace(0)))
        sends = [sorted(late for trace in own for late in trace.send_delays_ms) or [0.0] for own in processes]
        loops = [sorted(late for trace in own for late in trace.loop_delays_ms) or [0.0] for own in processes]
        return cls(
            send_p50=max(percentile(send, 50) for send in sends),
            send_p99=max(percentile(send, 99) for send in sends),
            send_max=max(send[-1] for send in sends),
            loop_p99=max(percentile(loop, 99) for loop in loops),
            processes=len(processes),
        )

    @property
    def void(self) -> bool:
        """Whether the measurement has figures and no verdict."""
        return too_late(self.send_p99, self.loop_p99)

    def sentence(self, closed: bool) -> str:
        """Why the measurement is void, and what is wrong with a `closed` loop that was late; "" where it is not."""
        if not self.void:
            return ""
        late, paused = max(self.send_p99, self.loop_p99), ""
        which = "The generator itself" if self.processes == 1 else f"One of the generator's {self.processes} processes"
        if closed and self.send_p99 > MAX_LAG_MS:
            paused = "Its users paused for as long: times from sending are too long, rates too low. "
        return (
            f"{which} was {late:.1f} ms late at p99, more than {MAX_LAG_MS:g}: this measurement is void. {paused}"
            "Give it a quieter machine or less load."
        )
