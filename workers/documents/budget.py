"""Divides a workload's minutes among the stages, and says what they took. Neither Django nor torch."""

from collections.abc import Mapping

from workers.documents.stages import GPU_STAGES, STAGES, Results, Stage
from workers.documents.workload import Workload

NEEDED_SECONDS: dict[str, float] = {
    "admit": 5.0,
    "baseline": 20.0,
    "profile": 20.0,
    "explore": 20.0,
    "compose": 40.0,
    "verify": 75.0,
}
"""Seconds that a stage is expected to need. The minutes are one budget: a stage may spend all that is left but what the
stages after it need."""
VERIFY_REQUESTS, QUALITY_REQUESTS = 60.0, 36.0
"""On a CPU verify needs the time of so many requests of what runs today, where that is longer, and quality of these the
second number: a plan's decode steps are compared at the speed of its requests. On a GPU quality takes seconds, and
today's requests are few where they are far slower."""
MAX_KEPT_SHARE = 0.5
"""The largest share of the minutes that is kept for verify's requests."""
LOAD_SHARE = 0.3
"""The load stage's share of the minutes."""
LOAD_SHARE_WITH_VLLM = 0.45
"""Its share where vLLM is before: vLLM's server takes about a minute to start."""
MINUTES_WITH_VLLM, MINUTES_OF_BOTH = 8.0, 10.0
"""Fewer of them leave vLLM's server little time under load; the second where after is vLLM with the plan."""
MIN_SECONDS = 20.0
OVERTIME, OVERTIME_SECONDS = 3.0, 240.0
"""A stage paces itself by `seconds_left`. One that does not end is stopped at OVERTIME times that, 0 or more, plus
OVERTIME_SECONDS."""
MINIMAL_WORK = {
    "admit": "loading the libraries and reading the model's files",
    "baseline": "loading the model and two requests",
    "profile": "loading the model and the trace of a request",
    "explore": "proving the variants that were begun",
    "compose": "a plan that may keep the promises, and up to 20 s of a build that was begun",
    "verify": "nine requests of the plan, four or more of what runs today, and quality over as much as proof takes",
    "load": "starting each side, three loads of three seconds of it, and judging one of its answers",
}
"""What a stage does even when its time is up."""
WORTH_NAMING = 1.0
"""Seconds beyond what it was granted from which a stage is named."""


def load_share(workload: Workload) -> float:
    """The share of the minutes that is kept for the load stage; 0 for a run without one."""
    if workload.load is None:
        return 0.0
    return LOAD_SHARE_WITH_VLLM if workload.baseline_runner == "vllm" else LOAD_SHARE


def request_seconds(results: Results) -> float:
    """What a request of the present deployment takes, with its wait for the others; 0 where none was measured."""
    measured = results.baseline.distributions if results.baseline else []
    waits = [dist.percentiles.get("p50", 0.0) for dist in measured if dist.metric in ("e2e", "batch_latency")]
    return max(waits, default=0.0) / 1000


def quality_seconds(results: Results) -> float:
    """What comparing a plan with float32 is expected to take on a CPU; 0 on a GPU."""
    on_cpu = results.baseline is not None and results.baseline.environment.gpu_class == "cpu"
    return QUALITY_REQUESTS * request_seconds(results) if on_cpu else 0.0


def seconds_granted(stage: Stage, workload: Workload, spent: float, results: Results) -> float:
    """Seconds for `stage` after earlier stages, with these results, spent `spent` seconds: what is left, but for what
    later stages need.

    Where the minutes are fewer than all stages need, each keeps its part of them. When nothing is left it is
    MIN_SECONDS, and for verify what it needs, within twice the minutes and unless the workload is strict about them:
    a plan that was found late is verified all the same.
    """
    if stage not in GPU_STAGES:
        return MIN_SECONDS
    minutes = workload.constraints.minutes * 60
    if stage == "load":
        return max(MIN_SECONDS, minutes - spent if workload.load else 0.0)
    seconds_left = minutes * (1 - load_share(workload)) - spent
    verify = max(NEEDED_SECONDS["verify"], VERIFY_REQUESTS / QUALITY_REQUESTS * quality_seconds(results))
    seconds = NEEDED_SECONDS | {"verify": max(NEEDED_SECONDS["verify"], min(verify, MAX_KEPT_SHARE * minutes))}
    needed = seconds.get(stage, MIN_SECONDS)
    later = sum(seconds.get(name, 0.0) for name in GPU_STAGES[GPU_STAGES.index(stage) + 1 :])
    least = MIN_SECONDS
    if stage == "verify" and not workload.constraints.strict_minutes:
        least = max(least, min(verify, 2 * minutes - spent))
    return max(least, seconds_left - later, seconds_left * needed / (needed + later))


def sentence(workload: Workload, taken: Mapping[str, float], results: Results) -> str:
    """Whether the stages kept to the workload's minutes; else which took longer than granted, and why.

    `taken`: seconds of each finished stage, waiting in a queue not counted. "" when none has finished.
    """
    if not taken:
        return ""
    minutes = workload.constraints.minutes
    total, allowed = _duration_words(sum(taken.values())), _duration_words(60 * minutes)
    if sum(taken.values()) <= 60 * minutes:
        return f"The stages took {total} of the {allowed} that the workload allows."
    over, spent = [], 0.0
    for stage in (name for name in STAGES if name in taken):
        seconds = seconds_granted(stage, workload, spent, results)
        spent += taken[stage]
        if stage in MINIMAL_WORK and taken[stage] > seconds + WORTH_NAMING:
            over.append(
                f"{stage} {_duration_words(taken[stage])} of {_duration_words(seconds)} ({MINIMAL_WORK[stage]})"
            )
    sentence = f"The stages took {total}, where the workload allows {allowed}."
    if not over:
        return f"{sentence} Each kept to its share, or to the {MIN_SECONDS:.0f} s that every stage gets."
    why = "These took longer than planned, since the least of each stage is done even when time is up"
    return f"{sentence} {why}: {'; '.join(over)}."


def _duration_words(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes and rest else f"{minutes} min" if minutes else f"{rest} s"
