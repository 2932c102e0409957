"""Which composed plans verify measures, in which order, and whether one is confirmed as a change worth making."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Self

from kernels.measure.latency import ServedBatch, pool_samples
from kernels.plan import Plan
from workers.documents.measurement import Environment, ServedIds
from workers.documents.profile import PlanProfile
from workers.documents.quality import Quality
from workers.documents.speedup import MIN_PROCESSES, Speedup
from workers.documents.stages import ObjectiveOutcome, PlanCheck, PlanTrial, StageInput
from workers.documents.workload import Objective, Workload
from workers.harness.context import Context
from workers.measuring.alternation import Alternation
from workers.measuring.outcomes import Sizes, outcomes_of, speedup
from workers.measuring.served_model import dtype_of
from workers.planning import choosing, ranking
from workers.planning.processes import ENOUGH_PROCESSES, MAX_PAIRS, MIN_PAIRS, PAIRS_SECONDS, FurtherProcesses
from workers.planning.served_checks import join_judged
from workers.stats.intervals import join_processes
from workers.stats.verdicts import overall
from workers.wording.text import times

CLEARLY_FASTER = 1.5
"""A plan that is faster by this factor in each process, and decided on every promise, is measured in no more of them
than ENOUGH_PROCESSES."""
FAR = 10.0
"""A latency is missed beside other programs where the fastest request, times the share of the CPU that they left, is
over so many times the limit."""
MAX_PLANS = 3
"""The most plans that are verified, the composed one included."""


@dataclass
class PlanMeasurement:
    """One plan, measured alternately with what runs today: its requests in each process, and what follows from them.

    `seconds` is the time that measuring took, `ready_seconds` that of loading and warming up both sides. Five texts are
    "" where they do not apply: `no_profile` says why the plan has no profile, `failure` which process or turn failed,
    `refusal` why the plan's requests are not valid, `choice` why what runs today is verified, and `passed_over` why
    another confirmed plan is the result. `baseline_name` is what sentences call the baseline (`baseline_words`).
    """

    label: str
    plan: Plan
    changed: bool
    environment: Environment
    processes: list[Alternation]
    outcomes: list[ObjectiveOutcome]
    speedup: Speedup
    ready_seconds: float
    seconds: float = 0.0
    quality: Quality | None = None
    no_quality: str = ""
    served_ids: ServedIds | None = None
    refusal: str = ""
    profile: PlanProfile | None = None
    no_profile: str = ""
    failure: str = ""
    choice: str = ""
    passed_over: str = ""
    baseline_name: str = "what runs today"

    @classmethod
    def of(
        cls, label: str, plan: Plan, document: StageInput, usd_per_hour: float | None, environment: Environment,
        processes: list[Alternation], **kwargs: Any,
    ) -> Self:  # fmt: skip
        """The measurement by its requests, with the fields that follow from them and `kwargs`."""
        objectives, facts = document.workload.objectives, (processes, usd_per_hour, sizes_of(document, plan))
        return cls(
            label=label, plan=plan, changed=is_change(plan, document), environment=environment, processes=processes,
            outcomes=outcomes_of(objectives, *facts), speedup=speedup(objectives[0], *facts),
            baseline_name=baseline_words(document.workload), **kwargs,
        )  # fmt: skip

    @property
    def before(self) -> list[ServedBatch]:
        """The requests of all processes that ran the present deployment, as if served one after the other."""
        return join_processes([process.before for process in self.processes])

    @property
    def after(self) -> list[ServedBatch]:
        """The requests of all processes that ran the plan, as if served one after the other."""
        return join_processes([process.after for process in self.processes])

    @property
    def void(self) -> str:
        """Why its figures do not count, as a sentence; "" unless another program is known to have used the GPU."""
        return self.environment.telemetry.void

    @property
    def turns(self) -> int:
        """How many turns each side took; 0 where requests of both alternated."""
        return len(self.processes) if self.processes[0].turn else 0

    @property
    def further_pairs(self) -> int:
        return min(MAX_PAIRS, max(MIN_PAIRS, round(PAIRS_SECONDS / self._pair_seconds)))

    def pairs_in(self, context: Context) -> int:
        """The same; one more than the least where the stage's time is too short for ENOUGH_PROCESSES, so that fewer of
        them have as many together.
        """
        enough = (ENOUGH_PROCESSES - 1) * (self.process_seconds(context) or 0.0) <= context.seconds_left
        return max(self.further_pairs, MIN_PAIRS + (not enough))

    @property
    def _pair_seconds(self) -> float:
        first = self.processes[0]
        return sum(median(batch.service_s for batch in side) for side in (first.before, first.after))

    def process_seconds(self, context: Context) -> float | None:
        """A further process's expected seconds, requests with a fifth more; None where the stage starts none."""
        if context.startup_seconds is None:
            return None
        return context.startup_seconds + self.ready_seconds + 1.2 * self.further_pairs * self._pair_seconds

    def kept_for_processes(self, context: Context, quality_seconds: float = 0.0) -> float:
        """Seconds that the least number of further processes take; 0 where they do not fit into what is left after
        `quality_seconds`, in which quality is still to be measured.
        """
        least = (MIN_PROCESSES - 1) * (self.process_seconds(context) or 0.0)
        return least if least <= context.seconds_left - quality_seconds else 0.0

    @property
    def why_not(self) -> str:
        """Why the plan is not recommended, as a sentence; "" if it is confirmed.

        A plan is confirmed if its figures and ids are valid, its quality is acceptable, and it either meets an SLA that
        is missed today, or is faster and misses no SLA that is met today.
        """
        if not self.changed:
            return self.choice or f"Nothing that was tried is faster than {self.baseline_name}."
        if self.void:
            return self.void
        if self.refusal:
            return f"The plan is refused. {self.refusal}"
        if self.quality is not None and not self.quality.acceptable:
            return self.quality.sentence
        before = overall([outcome.verdict_before for outcome in self.outcomes])
        after = overall([outcome.verdict for outcome in self.outcomes])
        if (before, after) == ("met", "missed"):
            return f"It misses the SLA, which is met with {self.baseline_name}."
        if (before, after) == ("missed", "met"):
            return self.passed_over
        return self._not_faster() or self.passed_over

    @property
    def keeps(self) -> bool:
        return overall([outcome.verdict for outcome in self.outcomes]) == "met"

    def _not_faster(self) -> str:
        ratio, objective = self.speedup.ratio, self.outcomes[0].objective
        if not self.speedup.difference:
            return f"The change of the median {objective.title} is no difference: repeats vary as much."
        if ratio.value < 1:
            return f"The median {objective.title} is {times(ratio.value, objective.unit)} than {self.baseline_name}."
        return ""

    def check(self) -> PlanCheck:
        return PlanCheck(
            label=self.label,
            confirmed=not self.why_not,
            reason=self.why_not,
            speedup=self.speedup if self.changed else None,
            quality=self.quality,
        )


def baseline_plan(document: StageInput) -> Plan:
    return Plan(
        model_digest=document.model.digest,
        gpu=document.gpu,
        tensor_parallel_size=document.tensor_parallel_size,  # type: ignore[arg-type]
        placement=document.placement,
        runner=document.workload.baseline_plan_runner,
        dtype=dtype_of(document),  # type: ignore[arg-type]
    )


def sizes_of(document: StageInput, plan: Plan | None = None) -> Sizes:
    """The numbers of GPUs that what runs today and the plan run on; without one both sides are today's."""
    size = document.tensor_parallel_size
    return size, plan.tensor_parallel_size if plan else size


def baseline_words(workload: Workload) -> str:
    """What sentences call the side that plans are compared with."""
    return "what runs today" if workload.compared_with == "before" else workload.compared_with


def measure_in_more_processes(
    measured: Sequence[PlanMeasurement], processes: FurtherProcesses, usd_per_hour: float | None
) -> list[PlanMeasurement]:
    """Measures the best of the attempts in further `processes`; the last attempt is a confirmed one.

    If these show that the plan is not to be recommended, the next confirmed attempt is measured in the same way.
    """
    attempts = list(measured)
    while not attempts[-1].why_not:
        attempts[-1] = _measured_again(attempts[-1], processes, usd_per_hour)
        if not attempts[-1].why_not:
            break
        attempts = with_result_last([replace(attempt, passed_over="") for attempt in attempts])
    return attempts


def _measured_again(
    attempt: PlanMeasurement, processes: FurtherProcesses, usd_per_hour: float | None
) -> PlanMeasurement:
    """The attempt with the requests of further processes, if the stage's time allows enough of them.

    It may then no longer be confirmed. The caller has freed the device's memory.
    """
    seconds = attempt.process_seconds(processes.context)
    if seconds is None or attempt.turns:
        return attempt
    objectives, gpus = processes.document.workload.objectives, sizes_of(processes.document, attempt.plan)

    def clear(added: Sequence[Alternation]) -> bool:
        return is_clear([*attempt.processes, *added], objectives, usd_per_hour, gpus)

    added = processes.measure(attempt.plan, seconds, attempt.pairs_in(processes.context), clear)
    alternations = [*attempt.processes, *added.alternations]
    return replace(
        attempt,
        environment=attempt.environment.with_busiest(added.telemetry),
        processes=alternations,
        outcomes=outcomes_of(objectives, alternations, usd_per_hour, gpus),
        speedup=speedup(objectives[0], alternations, usd_per_hour, gpus),
        served_ids=join_judged([*([attempt.served_ids] if attempt.served_ids else []), *added.served_ids]),
        refusal=added.refusal,
        failure=added.failure,
    )


def is_clear(
    processes: Sequence[Alternation], objectives: Sequence[Objective], usd_per_hour: float | None, gpus: Sizes
) -> bool:
    """Whether a plan is CLEARLY_FASTER in each process, and decided on every promise."""
    gain = speedup(objectives[0], processes, usd_per_hour, gpus)
    faster = all(process.ratio >= CLEARLY_FASTER for process in gain.processes)
    return faster and is_decided(processes, objectives, usd_per_hour, gpus)


def is_decided(
    processes: Sequence[Alternation], objectives: Sequence[Objective], usd_per_hour: float | None, gpus: Sizes
) -> bool:
    """Whether every promise is met or missed by what ran after."""
    outcomes = outcomes_of(objectives, processes, usd_per_hour, gpus)
    return all(outcome.verdict in ("met", "missed") for outcome in outcomes)


def unchanged(
    last: PlanMeasurement,
    document: StageInput,
    usd_per_hour: float | None,
    pairs: list[Alternation] | None = None,
) -> PlanMeasurement:
    """The baseline as the result, by its requests in each process on both sides: `pairs`, else those of `last`."""
    pairs = pairs or [Alternation(process.before, process.before, process.turn) for process in last.processes]
    return replace(
        last,
        plan=baseline_plan(document),
        changed=False,
        profile=None,
        no_profile="",
        processes=pairs,
        outcomes=outcomes_of(document.workload.objectives, pairs, usd_per_hour, sizes_of(document)),
        quality=None if last.changed else last.quality,
        served_ids=None if last.changed else last.served_ids,
    )


def without_void_verdicts(attempt: PlanMeasurement, busy: float | None) -> PlanMeasurement:
    """The attempt; where its figures are void, no objective is met or missed by them.

    What is met beside other programs, which used the share `busy` of the CPU, is met without them as well, but nothing
    is missed, unless it is FAR beyond its limit.
    """
    nothing: dict[str, object] = {"void": True, "verdict_before": "not_enough_samples", "verdict": "not_enough_samples"}
    outcomes = [
        outcome.model_copy(update=nothing) if attempt.void or _may_be_kept_without(busy, outcome, attempt) else outcome
        for outcome in attempt.outcomes
    ]
    return replace(attempt, outcomes=outcomes)


def _may_be_kept_without(busy: float | None, outcome: ObjectiveOutcome, attempt: PlanMeasurement) -> bool:
    """Whether a missed objective may be kept without other programs, which used the share `busy` of the CPU."""
    objective = outcome.objective
    if busy is None or outcome.verdict != "missed":
        return False
    if objective.limit is None or objective.unit != "ms":
        return True
    samples = pool_samples(attempt.after, objective.metric, objective.n)
    return not samples or min(samples) * (1 - busy) <= FAR * objective.limit


def gives_way(attempt: PlanMeasurement, document: StageInput) -> bool:
    """Whether a confirmed plan was taken for its price, and does not keep every promise when it is verified."""
    composed = document.results.compose
    cheap = document.workload.constraints.prefer == "cheapest"
    return bool(composed and composed.choice and cheap and not attempt.keeps)


def with_result_last(measured: list[PlanMeasurement]) -> list[PlanMeasurement]:
    """The attempts in an order in which the last one is the result, where any is confirmed.

    The result is the first confirmed attempt that keeps every promise, else the fastest confirmed one.
    """
    confirmed = [attempt for attempt in measured if not attempt.why_not]
    if not confirmed:
        return measured
    best = max(confirmed, key=lambda plan: (plan.keeps, plan.speedup.ratio.value if not plan.keeps else 0.0))
    why = f"It does not keep every promise as verified; {best.label} stands instead."
    others = [
        attempt if attempt.why_not else replace(attempt, passed_over=why) for attempt in measured if attempt is not best
    ]
    return [*others, best]


def is_change(plan: Plan, document: StageInput) -> bool:
    baseline = baseline_plan(document)
    return bool(plan.ops or plan.options) or (plan.runner, plan.dtype) != (baseline.runner, baseline.dtype)


def plans_to_verify(document: StageInput, composed: Plan) -> list[tuple[str, Plan]]:
    """(label, plan) of the composed plan, then of the others that passed in compose and beat today's, best first:
    where the workload prefers the cheapest plan, those that keep every promise by their price, then the others.
    Plans that ended verify's process count among MAX_PLANS, and are not returned.

    Only what runs today where it is the composed plan, or where no other plan can be verified.
    """
    trials = document.results.compose.trials if document.results.compose else []
    label = next((trial.label for trial in trials if trial.chosen), composed.runner)
    if not is_change(composed, document):
        return [(label, composed)]
    others = [(trial.label, Plan.model_validate(trial.plan)) for trial in _rivals(trials, document)]
    ended = {left_out.key for left_out in document.left_out}
    plans = [named for named in [(label, composed), *others][:MAX_PLANS] if named[0] not in ended]
    return plans or [(document.workload.baseline_plan_runner, baseline_plan(document))]


def _rivals(trials: Sequence[PlanTrial], document: StageInput) -> list[PlanTrial]:
    """The trials that passed, were not chosen and are better than today's, best first."""
    lower = document.workload.objectives[0].direction != "at_least"
    passed = [trial for trial in trials if trial.gate == "pass" and trial.primary is not None]
    baseline = next((trial for trial in passed if not is_change(Plan.model_validate(trial.plan), document)), None)
    alternatives = [
        trial for trial in passed if not trial.chosen and is_change(Plan.model_validate(trial.plan), document)
    ]
    if baseline is not None:
        alternatives = [trial for trial in alternatives if ranking.better(trial, baseline, lower)]
    alternatives.sort(key=lambda trial: trial.primary.value if trial.primary else 0.0, reverse=not lower)
    if document.workload.constraints.prefer == "cheapest":
        feasible = choosing.feasible_trials(trials, document.workload.objectives)
        alternatives.sort(key=lambda trial: choosing.cost_of(trial) if trial in feasible else math.inf)
    return alternatives
