"""Whether a run is worse than a kept one by more than a limit.

Both runs have one median of the first objective's metric for each fresh process that verify measured. Over n and m of
them the logarithm of the ratio is the difference d of the mean logarithms, with Student's 99 % interval

    d ± t(0.995, n + m − 2) · s · √(1/n + 1/m),

s the pooled standard deviation. *Regressed* is said when the whole interval lies beyond 1 + limit and every process of
the new run is worse than every process of the kept one. The first supposes about normal logarithms, the second
nothing; `workers.regression_errors` simulates how often both err together on two runs of the same program.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from workers.charts.text import percent, plain, quantity
from workers.documents.measurement import Interval
from workers.documents.stages import Results, VerifyResult
from workers.documents.workload import Objective, Workload

LEAST_PROCESSES = 4
"""Fresh processes that each run must have: with fewer, processes of two kinds raise more than 1 % false alarms."""
STUDENT = {6: 3.707, 7: 3.499, 8: 3.355, 9: 3.250, 10: 3.169}
"""The 99.5 % quantiles of Student's t, by degrees of freedom."""


class NotComparable(ValueError):
    """Why two runs cannot be held against each other, in a sentence."""


class TooFewProcesses(ValueError):
    """Why two runs that are comparable cannot be judged, in a sentence."""


@dataclass(frozen=True)
class Kept:
    """A finished run: how it is called, its model, its workload and what was found."""

    name: str
    model_digest: str
    workload: Workload
    results: Results


@dataclass(frozen=True)
class Judgement:
    """`ratio` is the new run over the kept one, above 1 when the new one is worse, with its 99 % interval."""

    ratio: Interval
    regressed: bool
    sentence: str


def ratio_of(kept: Sequence[float], new: Sequence[float]) -> Interval:
    """new / kept of medians, one a process, with the 99 % interval. Raises TooFewProcesses."""
    for medians in (kept, new):
        if not LEAST_PROCESSES <= len(medians) <= 6:
            raise TooFewProcesses(f"it takes {LEAST_PROCESSES} to 6 fresh processes, not {len(medians)}")
    logs = [[math.log(each) for each in medians] for medians in (kept, new)]
    n, m = len(kept), len(new)
    pooled = math.sqrt(((n - 1) * variance(logs[0]) + (m - 1) * variance(logs[1])) / (n + m - 2))
    middle, half = fmean(logs[1]) - fmean(logs[0]), STUDENT[n + m - 2] * pooled * math.sqrt(1 / n + 1 / m)
    return Interval(value=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half))


def regressed(kept: Sequence[float], new: Sequence[float], limit: float) -> bool:
    """Whether times `new` are longer than times `kept` by more than the share `limit`, at 99 %."""
    return ratio_of(kept, new).low > 1 + limit and min(new) > max(kept)


def judge(kept: Kept, new: Kept, limit: float) -> Judgement:
    """The new run against the kept one. Raises NotComparable and TooFewProcesses, whose sentences name both runs."""
    check_comparable(kept, new)
    objective = _verified(new).outcomes[0].objective
    sides = [_medians(run, objective) for run in (kept, new)]
    if objective.direction == "at_least":
        sides = [[1 / each for each in medians] for medians in sides]
    try:
        ratio = ratio_of(*sides)
    except TooFewProcesses as error:
        counts = " and ".join(f"{run.name} has {len(each)}" for run, each in zip((kept, new), sides, strict=True))
        raise TooFewProcesses(
            f"A regression cannot be judged: {error}, and {counts}; give the workload more minutes."
        ) from None
    found = regressed(sides[0], sides[1], limit)
    return Judgement(ratio, found, _sentence(kept, new, objective, ratio, found, limit))


def check_comparable(kept: Kept, new: Kept) -> None:
    """Raises NotComparable where the runs differ in more than their plans and programs."""
    verified = _verified(kept), _verified(new)
    differ = {
        "model": kept.model_digest != new.model_digest,
        "GPU": verified[0].environment.device != verified[1].environment.device,
        "traffic": kept.workload.traffic != new.workload.traffic,
        "first objective": _metric(verified[0]) != _metric(verified[1]),
    }
    for what, different in differ.items():
        if different:
            raise NotComparable(
                f"{new.name} and {kept.name} differ in their {what}, so neither is a regression of the other."
            )
    for run, each in zip((kept, new), verified, strict=True):
        if each.environment.telemetry.void:
            raise NotComparable(f"{run.name} does not count: {each.environment.telemetry.void}")


def _verified(run: Kept) -> VerifyResult:
    if run.results.verify is None:
        raise NotComparable(f"{run.name} has no verified result.")
    return run.results.verify


def _metric(verify: VerifyResult) -> tuple[str, int | None]:
    objective = verify.outcomes[0].objective
    return objective.metric, objective.n


def _medians(run: Kept, objective: Objective) -> list[float]:
    found = _verified(run).speedup
    return [each.after for each in found.processes] if found else []


def _sentence(kept: Kept, new: Kept, objective: Objective, ratio: Interval, found: bool, limit: float) -> str:
    medians = [_geometric(_medians(run, objective)) for run in (kept, new)]
    values = [quantity(each, objective.unit) for each in medians]
    said = "worse" if found else "not shown to be worse"
    counts = " and ".join(str(len(_medians(run, objective))) for run in (kept, new))
    return (
        f"{new.name} is {said} than {kept.name} by more than {percent(limit)}: median {objective.title} {values[1]} "
        f"where it was {values[0]}; ratio {plain(ratio.value, 4)}, 99 % interval {plain(ratio.low, 4)} to "
        f"{plain(ratio.high, 4)}, over {counts} processes."
    )


def _geometric(medians: Sequence[float]) -> float:
    return math.exp(fmean(math.log(each) for each in medians))
