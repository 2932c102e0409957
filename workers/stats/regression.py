"""Whether a run is worse than a kept one by more than a limit, in the metric of any objective.

Both runs have one median of each metric for each process that verify measured. Over n and m of them the logarithm
of the ratio is the difference d of the mean logarithms, with Student's interval

    d ± t(1 − 0.005 / k, n + m − 2) · s · √(1/n + 1/m),

s the pooled standard deviation and k the number of metrics, rounded up to a power of two (Bonferroni). *Regressed* is
said when the whole interval of a metric lies beyond 1 + limit and every process of the new run is worse in it than
every process of the kept one. The first supposes about normal logarithms, the second nothing. Processes of two kinds
pass for a change with a chance of about 2 to the power of −(n + m), so k metrics take 8 + log₂ k processes of both runs
together, and eight are the most; of more, the first objectives alone are judged. How often all of it errs on two runs
of the same program, `benchmarks.simulations.regression_errors` says.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean, variance

from workers.documents.measurement import Interval, MetricKey, metric_key
from workers.documents.stages import Results, VerifyResult
from workers.documents.workload import Objective, Workload
from workers.wording.text import percent, plain, quantity

MIN_PROCESSES = 4
"""Processes that each run must have: with fewer, processes of two kinds raise more than 1 % false alarms."""
STUDENT_BONFERRONI = {
    1: {6: 3.708, 7: 3.500, 8: 3.356, 9: 3.250, 10: 3.170},
    2: {6: 4.317, 7: 4.030, 8: 3.833, 9: 3.690, 10: 3.582},
    4: {6: 4.981, 7: 4.595, 8: 4.334, 9: 4.146, 10: 4.005},
    8: {6: 5.709, 7: 5.203, 8: 4.864, 9: 4.623, 10: 4.443},
}
"""The 1 − 0.005 / k quantiles of Student's t, rounded up, by the number k of metrics and the degrees of freedom."""


class NotComparable(ValueError):
    """Why two runs cannot be held against each other, in a sentence."""


class TooFewProcesses(ValueError):
    """Why two runs that are comparable cannot be judged, in a sentence."""


@dataclass(frozen=True)
class KeptRun:
    """A finished run: how it is called, its model, its workload and what was found."""

    name: str
    model_digest: str
    workload: Workload
    results: Results


@dataclass(frozen=True)
class Judgement:
    """`ratios` are the new run over the kept one by metric, above 1 when the new one is worse, with their intervals.

    The intervals hold together with 99 %.
    """

    ratios: dict[str, Interval]
    regressed: bool
    sentence: str


def together(metrics: int) -> int:
    """The number of metrics that the confidence is shared among: the next power of two."""
    return 1 << (metrics - 1).bit_length()


def ratio_of(kept: Sequence[float], new: Sequence[float], metrics: int = 1) -> Interval:
    """new / kept of medians, one a process, at 99 % for so many metrics together. Raises TooFewProcesses."""
    for medians in (kept, new):
        if not MIN_PROCESSES <= len(medians) <= 6:
            raise TooFewProcesses(f"it takes {MIN_PROCESSES} to 6 processes of verify, not {len(medians)}")
    logs = [[math.log(median) for median in medians] for medians in (kept, new)]
    n, m = len(kept), len(new)
    pooled = math.sqrt(((n - 1) * variance(logs[0]) + (m - 1) * variance(logs[1])) / (n + m - 2))
    middle, half = (
        fmean(logs[1]) - fmean(logs[0]),
        STUDENT_BONFERRONI[together(metrics)][n + m - 2] * pooled * math.sqrt(1 / n + 1 / m),
    )
    return Interval(value=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half))


def regressed(kept: Sequence[float], new: Sequence[float], limit: float, metrics: int = 1) -> bool:
    """Whether times `new` are longer than times `kept` by more than the share `limit`, of so many judged together."""
    return ratio_of(kept, new, metrics).low > 1 + limit and min(new) > max(kept)


def judge(kept: KeptRun, new: KeptRun, limit: float) -> Judgement:
    """The new run against the kept one. Raises NotComparable and TooFewProcesses, whose sentences name both runs."""
    check_comparable(kept, new)
    objectives, left_out = _shared(kept, new)
    ratios, worse = dict[str, Interval](), list[str]()
    try:
        for objective in objectives:
            before, after = _medians(kept, objective), _medians(new, objective)
            if objective.direction == "at_least":
                before, after = [1 / value for value in before], [1 / value for value in after]
            ratios[objective.title] = ratio_of(before, after, len(objectives))
            worse += [objective.title] if regressed(before, after, limit, len(objectives)) else []
    except TooFewProcesses as error:
        counts = " and ".join(f"{run.name} has {len(_medians(run, objectives[0]))}" for run in (kept, new))
        raise TooFewProcesses(
            f"A regression cannot be judged: {error}, and {counts}; give the workload more minutes."
        ) from None
    words = _sentence(kept, new, objectives, ratios, worse, limit)
    return Judgement(ratios, bool(worse), " ".join([words, *left_out, *_two_gpus(kept, new)]))


def _two_gpus(kept: KeptRun, new: KeptRun) -> list[str]:
    """A sentence where the runs had two GPUs of one name: each run has processes on one alone."""
    gpus = {_verified(run).environment.gpu_uuid for run in (kept, new)}
    if len(gpus - {""}) < 2:
        return []
    return ["They were made on two GPUs of that name, in hosts that may differ: that is part of the ratio."]


def _shared(kept: KeptRun, new: KeptRun) -> tuple[list[Objective], list[str]]:
    """One objective for each metric that both runs have medians of, in the new run's order, and what is left out."""
    by_key = {metric_key(outcome.objective): outcome.objective for outcome in _verified(new).outcomes}
    first, *others = by_key
    counts = [len(_medians(run, by_key[first])) for run in (kept, new)]
    both = [key for key in others if [len(_medians(run, by_key[key])) for run in (kept, new)] == counts]
    most = min(max(STUDENT_BONFERRONI), 1 << max(0, sum(counts) - 2 * MIN_PROCESSES))
    judged = [first, *both][:most]
    not_judged = [by_key[key].title for key in others if key not in judged]
    words = [f"Not judged, for want of processes or figures: {', '.join(not_judged)}."] if not_judged else []
    return [by_key[key] for key in judged], words


def check_comparable(kept: KeptRun, new: KeptRun) -> None:
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
    for run, result in zip((kept, new), verified, strict=True):
        if result.environment.telemetry.void:
            raise NotComparable(f"{run.name} does not count: {result.environment.telemetry.void}")


def _verified(run: KeptRun) -> VerifyResult:
    if run.results.verify is None:
        raise NotComparable(f"{run.name} has no verified result.")
    return run.results.verify


def _metric(verify: VerifyResult) -> MetricKey:
    return metric_key(verify.outcomes[0].objective)


def _medians(run: KeptRun, objective: Objective) -> list[float]:
    """The metric's medians, one a process; results of older versions have those of the first objective alone."""
    verify = _verified(run)
    outcomes = (outcome for outcome in verify.outcomes if metric_key(outcome.objective) == metric_key(objective))
    if (outcome := next(outcomes, None)) and outcome.medians:
        return outcome.medians
    first = _metric(verify) == metric_key(objective)
    return [process.after for process in verify.speedup.processes] if first and verify.speedup else []


def _sentence(
    kept: KeptRun,
    new: KeptRun,
    objectives: list[Objective],
    ratios: dict[str, Interval],
    worse: list[str],
    limit: float,
) -> str:
    words, several = "worse" if worse else "not shown to be worse", len(objectives) > 1
    where = f" in {', '.join(worse)}" if worse and several else ""
    counts = " and ".join(str(len(_medians(run, objectives[0]))) for run in (kept, new))
    sentences = []
    for objective in objectives:
        values = [quantity(geometric_mean(_medians(run, objective)), objective.unit) for run in (kept, new)]
        ratio, interval = ratios[objective.title], "interval" if several else "99 % interval"
        sentences.append(
            f"median {objective.title} {values[1]} where it was {values[0]}; ratio {plain(ratio.value, 4)}, {interval} "
            f"{plain(ratio.low, 4)} to {plain(ratio.high, 4)}"
        )
    joint = "; 99 % for all of them together" if several else ""
    return (
        f"{new.name} is {words} than {kept.name} by more than {percent(limit)}{where}: {'; '.join(sentences)}{joint}, "
        f"over {counts} processes."
    )
