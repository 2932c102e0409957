"""Divides a workload's minutes among the stages, and says what they took. Neither Django nor torch."""

from collections.abc import Mapping

from workers.documents.stages import GPU_STAGES, STAGES, Stage
from workers.documents.workload import Workload

DEFAULT_SHARE = 0.1
SHARES: dict[str, float] = {
    "admit": 0.05,
    "baseline": 0.14,
    "profile": 0.14,
    "explore": 0.14,
    "compose": 0.26,
    "verify": 0.27,
    "load": 0.4,
}
"""Shares of the workload's minutes, beside each other. A GPU stage that is not listed gets DEFAULT_SHARE."""
LOAD_WITH_VLLM = 0.8
"""The load stage's share where vLLM is before: its server takes about a minute to start."""
MINUTES_WITH_VLLM = 8.0
"""Fewer of them leave vLLM's server little time under load."""
LEAST_SECONDS = 20.0
LEAST_WORK = {
    "admit": "loading the libraries and reading the model's files",
    "baseline": "loading the model and two requests",
    "profile": "loading the model and the trace of a request",
    "explore": "proving the variants that were begun",
    "compose": "one alternative to what runs today, and up to 20 s of a build that was begun",
    "verify": "nine pairs of requests, and quality over as many tokens or answers as proof takes",
    "load": "starting each side, three loads of three seconds of it, and judging one of its answers",
}
"""What a stage does even when its time is up."""
WORTH_NAMING = 1.0
"""Seconds beyond its share from which a stage is named."""


def share(stage: str, workload: Workload) -> float:
    """The stage's share of the minutes, beside those of the others; 0 for the load stage of a run without one."""
    if stage != "load":
        return SHARES.get(stage, DEFAULT_SHARE)
    if workload.load is None:
        return 0.0
    return LOAD_WITH_VLLM if workload.baseline_runner == "vllm" else SHARES[stage]


def granted(stage: Stage, workload: Workload, spent: float) -> float:
    """Seconds for `stage` after earlier stages spent `spent` seconds: its share of what is left.

    What a stage does not use goes to those after it; LEAST_SECONDS when nothing is left.
    """
    if stage not in GPU_STAGES:
        return LEAST_SECONDS
    ahead = sum(share(name, workload) for name in GPU_STAGES[GPU_STAGES.index(stage) :])
    left = workload.constraints.minutes * 60 - spent
    return max(LEAST_SECONDS, left * share(stage, workload) / ahead if ahead else 0.0)


def sentence(workload: Workload, taken: Mapping[str, float]) -> str:
    """Whether the stages kept to the workload's minutes; else which took longer than planned, and why.

    `taken`: seconds of each finished stage, waiting in a queue not counted. "" when none has finished.
    """
    if not taken:
        return ""
    minutes = workload.constraints.minutes
    total, allowed = _words(sum(taken.values())), _words(60 * minutes)
    if sum(taken.values()) <= 60 * minutes:
        return f"The stages took {total} of the {allowed} that the workload allows."
    over, spent = [], 0.0
    for stage in (each for each in STAGES if each in taken):
        planned = granted(stage, workload, spent)
        spent += taken[stage]
        if stage in LEAST_WORK and taken[stage] > planned + WORTH_NAMING:
            over.append(f"{stage} {_words(taken[stage])} of {_words(planned)} ({LEAST_WORK[stage]})")
    said = f"The stages took {total}, where the workload allows {allowed}."
    if not over:
        return f"{said} Each kept to its share, or to the {LEAST_SECONDS:.0f} s that every stage gets."
    return f"{said} Longer than planned took what is done even when time is up: {'; '.join(over)}."


def _words(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes and rest else f"{minutes} min" if minutes else f"{rest} s"
