"""What runs today and a plan, measured alternately in one process."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from kernels.measure.latency import ServedBatch
from kernels.runners import Runner
from kernels.runners.clients import Clients
from workers.documents.speedup import MIN_PROCESSES
from workers.documents.stages import StageInput
from workers.documents.workload import Workload
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
"""Pairs after which before is not served any more, once it is decided. Slow requests are paired for MIN_SECONDS."""


FAR_SLOWER = 5.0
"""Before whose requests take so many times as long as after's is not pursued until it is decided."""
MIN_PAIRS_OF_SEVERAL = 3
"""The pairs of a process with a FAR_SLOWER before where further ones follow: all together have MIN_PAIRS."""
PAIRS_FAR_SLOWER = 4
"""The same where none follows. The smallest and the largest ratio of any two of so many requests enclose that of the
medians with 97 % confidence; of three with 90 %."""
MIN_SLOW_PAIRS, LATEST_SECONDS = 2, 120.0
"""The pairs that are kept in place of MIN_PAIRS once the stage is so many seconds over its time."""


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


def _is_far_slower(before: Sequence[ServedBatch], after: Sequence[ServedBatch]) -> bool:
    median_before, median_after = (median(batch.service_s for batch in side) for side in (before, after))
    return median_before >= FAR_SLOWER * median_after


def alternate(
    before: Clients,
    after: Clients,
    workload: Workload,
    hours: Hours,
    context: Context,
    reserve: float,
    start_seconds: float | None = None,
) -> None:
    """Before and after alternate until the objectives of both are decided, then after alone until they are decided.

    `hours` are the USD per hour of each. Before is not pursued where it is too close to call. Once it is decided, after
    goes on alone when ENOUGH_PAIRS are served, or MIN_PAIRS in MIN_SECONDS, or as soon as the time left is twice
    what the requests take that after still needs. A promise relative to before takes pairs alone. Stops when `reserve`
    seconds of the stage are left, but not before MIN_PAIRS and MIN_SECONDS; with MIN_SLOW_PAIRS where the stage is
    LATEST_SECONDS over its time.

    A FAR_SLOWER before is given up after MIN_SECONDS, or after PAIRS_FAR_SLOWER where MIN_PAIRS take longer, or
    after MIN_PAIRS_OF_SEVERAL where MIN_PROCESSES fit into the time: `start_seconds` are those until a further
    process serves, None where there is none.
    What runs today, as both sides, serves once.
    """
    objectives = workload.objectives
    limited = [objective for objective in objectives if objective.limit is not None]
    least_pairs = MIN_PAIRS if limited == list(objectives) else MIN_REQUESTS
    began, spent, alone, given_up = time.monotonic(), 0.0, False, False
    soonest = began + MIN_SECONDS
    what = "requests" if after is before else "pairs of requests"
    while True:
        late = context.seconds_left <= reserve and time.monotonic() > soonest
        pairs, done = len(before.served), len(after.served)
        if pairs >= MIN_SLOW_PAIRS and context.overtime > LATEST_SECONDS:
            return
        verdicts_before = verdicts(objectives, before.served, hours[0])
        slow = pairs >= least_pairs and time.monotonic() > soonest
        decided = "not_enough_samples" not in verdicts_before or (slow and _is_far_slower(before.served, after.served))
        if least_pairs == MIN_PAIRS and pairs == done and MIN_PAIRS_OF_SEVERAL <= pairs <= PAIRS_FAR_SLOWER:
            seconds = (start_seconds or 0.0) + 1.2 * (time.monotonic() - began)
            fits = (MIN_PROCESSES - 1) * seconds <= context.seconds_left - reserve
            costly = MIN_PAIRS / pairs * (time.monotonic() - began) > MIN_SECONDS
            enough = (pairs == PAIRS_FAR_SLOWER and costly) or (start_seconds is not None and fits)
            given_up = enough and after is not before and _is_far_slower(before.served, after.served)
        paired = given_up or ((slow or pairs >= MIN_REQUESTS) and decided)
        counted = done if given_up else pairs
        if counted >= MIN_PAIRS and (late or (paired and is_enough(objectives, after.served, hours[1]))):
            return
        if paired and not alone:
            least = max([MIN_REQUESTS, *(needed_batches(objective, [after.served], hours[1]) for objective in limited)])
            short = 2 * (least - done) * spent / done >= context.seconds_left - reserve
            alone = given_up or short or pairs >= ENOUGH_PAIRS or (slow and least_pairs == MIN_PAIRS)
        if not (alone or after is before):
            before.serve()
        start = time.monotonic()
        after.serve()
        spent += time.monotonic() - start
        context.report_progress(0.2 + 0.5 * done / (done + MIN_REQUESTS), f"{what} measured: {len(before.served)}")
