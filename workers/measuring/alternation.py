"""What runs today and a plan, measured alternately in one process."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from kernels.measure.latency import ServedBatch
from kernels.runners import Runner
from kernels.runners.clients import Clients
from workers.documents.speedup import MIN_PROCESSES
from workers.documents.stages import StageInput
from workers.documents.workload import Objective, Workload
from workers.harness.context import Context
from workers.stats.sample_sizes import MIN_REQUESTS, is_enough, needed_batches, verdicts

Hours = tuple[float | None, float | None]
"""USD per hour of before and of after; None where no price is known."""
MIN_PAIRS = 9
MIN_SECONDS = 8.0
"""The least interleaved pairs and seconds, even when time is up. The pairs are one more than a p50 needs."""
TIMING_SHARE = 0.6
"""Share of the stage's seconds for loading and timing at most. Quality gets the rest."""
ENOUGH_PAIRS = 2 * MIN_REQUESTS
"""Pairs after which a decided before is no longer served. Slow requests are paired for MIN_SECONDS."""


FAR_SLOWER = 5.0
"""The ratio of the median times from which on before is given up undecided."""
MIN_PAIRS_OF_SEVERAL = 3
"""The pairs of a process whose before is FAR_SLOWER, if further processes follow: together they have MIN_PAIRS."""
PAIRS_FAR_SLOWER = 4
"""The same if none follows. The smallest and the largest ratio of any two of so many requests enclose that of the
medians with 97 % confidence; of three with 90 %."""
MIN_SLOW_PAIRS, LATEST_SECONDS = 2, 120.0
"""The fewest pairs in place of MIN_PAIRS, once the stage is so many seconds over its time."""


@dataclass(frozen=True)
class Alternation:
    """What one process served: today's and the plan's requests alternated for the first `pairs` of each. Of a `turn`
    each side had a process, one after the other.
    """

    before: Sequence[ServedBatch]
    after: Sequence[ServedBatch]
    turn: bool = False

    @property
    def pairs(self) -> int:
        return min(len(self.before), len(self.after))


def warm_clients(document: StageInput, runner: Runner, seed: int, shared: dict[str, Any]) -> Clients:
    """The workload's clients on a prepared runner, each served once.

    `shared` is what the stages of this process share. What whole requests of its model have warmed up by eager, which
    holds nothing of its own, is not warmed up again where no client queues; the prompts that follow are the same.
    """
    clients = Clients(runner, document.workload.traffic, seed)
    eager = runner.name == "eager" and runner.model is shared.get("model")
    if eager and clients.rounds == 1 and "eager_is_warm" in shared:
        clients.draw()
    else:
        clients.warm_up()
    if eager:
        shared["eager_is_warm"] = True
    return clients


@dataclass
class _Progress:
    """How far before and after have come: every question that decides whether one of them serves again."""

    before: Clients
    after: Clients
    objectives: Sequence[Objective]
    hours: Hours
    context: Context
    reserve: float
    start_seconds: float | None
    began: float = field(default_factory=lambda: time.monotonic())
    after_seconds: float = 0.0
    """What all requests of after have taken."""

    @property
    def limited(self) -> list[Objective]:
        return [objective for objective in self.objectives if objective.limit is not None]

    @property
    def is_absolute(self) -> bool:
        """Whether no promise is relative to before."""
        return len(self.limited) == len(self.objectives)

    @property
    def pairs(self) -> int:
        return len(self.before.served)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def spare_seconds(self) -> float:
        return self.context.seconds_left - self.reserve

    def is_far_over_time(self) -> bool:
        return self.pairs >= MIN_SLOW_PAIRS and self.context.overtime > LATEST_SECONDS

    def is_time_up(self) -> bool:
        return self.spare_seconds <= 0 and self.seconds > MIN_SECONDS

    def has_served_long(self) -> bool:
        """Whether before has its least pairs and MIN_SECONDS have passed."""
        return self.pairs >= (MIN_PAIRS if self.is_absolute else MIN_REQUESTS) and self.seconds > MIN_SECONDS

    def is_far_slower(self) -> bool:
        before, after = (median(batch.service_s for batch in side.served) for side in (self.before, self.after))
        return before >= FAR_SLOWER * after

    def abandons_before(self) -> bool:
        """Whether before is so slow that its first pairs must do."""
        pairs = self.pairs
        if not (self.is_absolute and MIN_PAIRS_OF_SEVERAL <= pairs <= PAIRS_FAR_SLOWER):
            return False
        if self.after is self.before or len(self.after.served) > pairs:
            return False
        further = (MIN_PROCESSES - 1) * ((self.start_seconds or 0.0) + 1.2 * self.seconds)
        fits = self.start_seconds is not None and further <= self.spare_seconds
        costly = pairs == PAIRS_FAR_SLOWER and MIN_PAIRS / pairs * self.seconds > MIN_SECONDS
        return (fits or costly) and self.is_far_slower()

    def is_before_decided(self) -> bool:
        long = self.has_served_long()
        if not (long or self.pairs >= MIN_REQUESTS):
            return False
        verdicts_before = verdicts(self.objectives, self.before.served, self.hours[0])
        return "not_enough_samples" not in verdicts_before or (long and self.is_far_slower())

    def is_after_decided(self) -> bool:
        return is_enough(self.objectives, self.after.served, self.hours[1])

    def continues_without_before(self) -> bool:
        """Whether after goes on without the decided before."""
        if self.pairs >= ENOUGH_PAIRS or (self.is_absolute and self.has_served_long()):
            return True
        needed = (needed_batches(objective, [self.after.served], self.hours[1]) for objective in self.limited)
        missing, done = max([MIN_REQUESTS, *needed]) - len(self.after.served), len(self.after.served)
        return 2 * missing * self.after_seconds / done >= self.spare_seconds

    def serve_after(self) -> None:
        start = time.monotonic()
        self.after.serve()
        self.after_seconds += time.monotonic() - start


def alternate(
    before: Clients,
    after: Clients,
    workload: Workload,
    hours: Hours,
    context: Context,
    reserve: float,
    start_seconds: float | None = None,
) -> None:
    """Serves before and after alternately until both are decided, then after alone until it is decided.

    `hours` are the USD per hour of each. A before that is too close to call counts as decided. After then goes on
    alone when ENOUGH_PAIRS are served, or MIN_PAIRS in MIN_SECONDS, or as soon as the time left is twice what the
    requests take that after still needs. An objective relative to before takes pairs only. Stops when `reserve`
    seconds of the stage are left, but not before MIN_PAIRS and MIN_SECONDS; with MIN_SLOW_PAIRS where the stage is
    LATEST_SECONDS over its time.

    A FAR_SLOWER before is given up after MIN_SECONDS, or after PAIRS_FAR_SLOWER where MIN_PAIRS take longer, or
    after MIN_PAIRS_OF_SEVERAL where MIN_PROCESSES fit into the time: `start_seconds` are those until a further
    process serves, None where there is none.
    If both sides are the baseline, it serves once a pair.
    """
    progress = _Progress(before, after, workload.objectives, hours, context, reserve, start_seconds)
    what = "requests" if after is before else "pairs of requests"
    given_up = alone = False
    while not progress.is_far_over_time():
        given_up = given_up or progress.abandons_before()
        decided = alone or given_up or progress.is_before_decided()
        served = len(after.served) if given_up else progress.pairs
        if served >= MIN_PAIRS and (progress.is_time_up() or (decided and progress.is_after_decided())):
            return
        alone = alone or given_up or (decided and progress.continues_without_before())
        if not (alone or after is before):
            before.serve()
        done = len(after.served)
        progress.serve_after()
        context.report_progress(0.2 + 0.5 * done / (done + MIN_REQUESTS), f"{what} measured: {progress.pairs}")
