"""Which whole-model plan is tried next, and which are not worth a trial: by what is predicted of each.

Plans that are predicted to keep the promise come before the others. Of either, the next one is that with the most
expected gain for each second of building and measuring: the logarithm of the ratio between the best figure so far and
the predicted one. Plans without a prediction follow, the quickest to build first. A plan is left out where even a
prediction that is too slow by PREDICTION_ERROR, or the floor of the model's bytes and FLOPs, does not lead below the
best figure by more than NOISE. One that takes more than CHEAP_SHARE of the seconds left is taken at its prediction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log

from kernels import registry
from kernels.hardware import GPUS
from kernels.measure.request_case import request_case
from kernels.measure.roofline import burst_rates, floor_ms
from kernels.plan import Plan
from kernels.runners.whole_model import WholeModel
from workers.cost.pricing import hourly_price
from workers.documents.stages import PlanTrial, StageInput
from workers.documents.workload import MAX_MINUTES, Objective
from workers.harness.context import Context
from workers.planning import choosing, kernels_plan, ranking, several_gpus
from workers.planning.build_times import BuildTimes
from workers.planning.precision import lowers_precision
from workers.prediction.precisions import lossy_refusal, precisions_of_plans
from workers.prediction.predict import predict_run, primary_prediction
from workers.wording.stages import NOT_TRIED
from workers.wording.text import percent, quantity

PREDICTION_ERROR, ERROR_ELSEWHERE = 0.1, 0.5
"""The share of a predicted time by which the measured one may be shorter: on Hopper GPUs, whose errors were measured
(`benchmarks/predictions.md`), and on other devices.
"""
HOPPER = 90
"""Their compute capability (x 10)."""
CHEAP_SHARE = 0.1
"""A larger share of the seconds left is not spent on the hope that a prediction is too slow."""
MIN_MEASURING_SECONDS, MIN_BATCHES = 4.0, 4
"""Comparing and measuring a plan takes so long beside building it, or the time of so many batches of requests."""


@dataclass(frozen=True)
class CandidatePlan:
    """A whole-model variant on a number of GPUs: what is predicted of the first objective's metric, and the seconds
    that building and measuring it is expected to take.
    """

    variant: WholeModel
    tensor_parallel_size: int
    predicted: float | None
    seconds: float

    @property
    def label(self) -> str:
        """The trial's label: `megakernel on 2 GPUs`."""
        return several_gpus.label(self.variant, self.tensor_parallel_size)


class TrialOrder:
    """The order of trials for a stage's document, by the rates that its run measured."""

    def __init__(self, document: StageInput) -> None:
        self._document = document
        self._objective: Objective = document.workload.objectives[0]
        self._before = choosing.median_before(document)
        self._lower = self._objective.direction != "at_least"
        profile = document.results.profile
        rates = {document.gpu: profile.ceilings} if profile else document.ceilings
        self._prediction = predict_run(document.workload, document.model, document.gpu_class, rates)
        self._floor = _floor(document)
        self._error = PREDICTION_ERROR if GPUS[document.gpu].sm == HOPPER else ERROR_ELSEWHERE
        self._precision = precisions_of_plans(document.workload, document.model, document.gpu_class)[0]

    def candidates(self) -> list[CandidatePlan]:
        """Every variant but the present deployment's, on each number of GPUs that it may run on."""
        baseline = self._document.workload.baseline_plan_runner
        return [
            self.candidate(variant, size)
            for variant in _whole_models(self._document)
            if variant.name != baseline
            for size in several_gpus.counts(variant, self._document)
        ]

    def candidate(self, variant: WholeModel, size: int = 1) -> CandidatePlan:
        """The variant on so many GPUs, with what is predicted of it."""
        building = BuildTimes(self._document).expect(variant.name, variant.build_seconds)
        value = self.predicted(variant, size)
        return CandidatePlan(variant, size, value, building + self.measuring_seconds(value))

    def measuring_seconds(self, value: float | None = None) -> float:
        """The seconds that comparing and measuring take of a plan whose first metric is predicted to be `value`; one
        without a prediction counts as no faster than the present deployment.
        """
        baseline, traffic = self._document.results.baseline, self._document.workload.traffic
        if baseline is None or not baseline.tokens_per_second or self._document.model.kind != "decoder":
            return MIN_MEASURING_SECONDS
        batch_seconds = traffic.batch * traffic.output_tokens / baseline.tokens_per_second
        if value and baseline.primary and self._lower:
            batch_seconds *= value / baseline.primary.value
        return max(MIN_MEASURING_SECONDS, MIN_BATCHES * batch_seconds)

    def predicted(self, variant: WholeModel, size: int = 1, objective: Objective | None = None) -> float | None:
        """The predicted median of an objective's metric (default: the first), in its unit; None where there is none."""
        usd = hourly_price(self._document.prices, self._document.gpu_class, size)
        wanted = objective or self._objective
        return primary_prediction(wanted, self._prediction, variant.name, self._precision, size, usd)

    def ranked(self, candidates: Sequence[CandidatePlan], best: PlanTrial | None) -> list[CandidatePlan]:
        """The candidates, the most valuable first; those that are predicted to keep the promise precede the others.
        Without a `best`, gains are over the worst prediction.
        """
        predictions = [candidate.predicted for candidate in candidates if candidate.predicted is not None]
        worst = max(predictions, default=0.0) if self._lower else min(predictions, default=0.0)
        reference = best.primary.value if best and best.primary else worst

        def value(candidate: CandidatePlan) -> tuple[bool, bool, float]:
            if candidate.predicted is None:
                return False, False, -candidate.seconds
            gain = log(reference) if self._lower else -log(reference)
            return True, self.keeps(candidate), (gain - self.slowness(candidate)) / candidate.seconds

        return sorted(candidates, key=value, reverse=True)

    def slowness(self, candidate: CandidatePlan) -> float:
        """The logarithm of the predicted figure, or of its inverse where more is better; of lower precision the first
        PREDICTION_ERROR of the gain count nothing: its quality has to be proven as well.
        """
        assert candidate.predicted is not None
        loss = log(1 + PREDICTION_ERROR) if candidate.variant.lossy else 0.0
        return loss + (log(candidate.predicted) if self._lower else -log(candidate.predicted))

    def refusal(self, candidate: CandidatePlan) -> str:
        """Why the variant cannot serve, or the workload does not allow it or its precision, as a sentence; or ""."""
        document, variant = self._document, candidate.variant
        if reason := self.excluded(variant):
            return reason
        size = candidate.tensor_parallel_size
        case = several_gpus.case_of(variant, document, size)
        refused = variant.serves(case, GPUS[document.gpu]) or several_gpus.refusal(document, size, variant.weights)
        if refused:
            return refused.reason
        return lossy_refusal(variant.weights, document.workload.constraints, document.model) if variant.lossy else ""

    def excluded(self, variant: WholeModel) -> str:
        """That the workload excludes the variant, as a sentence; "" where it does not."""
        return "The workload excludes it." if variant.name in self._document.workload.constraints.exclude else ""

    def why_not(self, candidate: CandidatePlan, trials: Sequence[PlanTrial], seconds_left: float) -> str:
        """Why a trial of the candidate is worth nothing beside the `trials` so far, as a sentence; or "".

        A plan that keeps the precision is compared with others that do: verify may refuse the quality of the rest. One
        of lower precision has to be predicted faster by more than predictions err, where the best keeps every promise.
        """
        lossless = [trial for trial in trials if not lowers_precision(Plan.model_validate(trial.plan), self._precision)]
        best = ranking.fastest(trials if candidate.variant.lossy else lossless, self._lower)
        if reason := self._no_more_gpus(candidate, trials):
            return reason
        if best is None or best.primary is None or candidate.predicted is None:
            return ""
        reached, unit = best.primary.value, self._objective.unit
        tunes = candidate.variant.runner_name == kernels_plan.VARIANT and kernels_plan.tunes_defaults(self._document)
        seconds = candidate.seconds + (kernels_plan.DEFAULTS_SECONDS if tunes else 0.0)
        error = self._error if seconds <= CHEAP_SHARE * seconds_left else 0.0
        if candidate.variant.lossy and choosing.keeps_promises(best, trials[0], self._objective):
            error = -PREDICTION_ERROR
        if self._lower:
            possible = max(candidate.predicted * (1 - error), self._floor / candidate.tensor_parallel_size)
            if possible < reached * (1 - ranking.NOISE):
                return ""
        elif candidate.predicted * (1 + error) > reached * (1 + ranking.NOISE):
            return ""
        words = (
            f"{NOT_TRIED}{quantity(candidate.predicted, unit)} are predicted, and {best.label} was measured with "
            f"{quantity(reached, unit)}."
        )
        is_better = candidate.predicted < reached if self._lower else candidate.predicted > reached
        if is_better and error < 0:
            words += f" A lower precision is tried for a gain of more than {percent(PREDICTION_ERROR, 0)}."
        return words

    def overtime(self, context: Context, trials: Sequence[PlanTrial]) -> float:
        """Seconds until the run has taken twice its minutes; 0 where they are strict, or a plan keeps the promises."""
        constraints = self._document.workload.constraints
        met = any(choosing.keeps_promises(trial, trials[0], self._objective) for trial in trials)
        if constraints.strict_minutes or met:
            return 0.0
        return context.seconds_left - context.overtime + 60 * constraints.minutes

    def too_late(self, candidate: CandidatePlan, seconds_left: float, most: float, overtime: float) -> str:
        """Why there is no time for the candidate, as a sentence; "" where there is.

        It may take `most` seconds, and `overtime` where it is predicted to keep the promise.
        """
        if candidate.seconds < max(most, overtime if self.keeps(candidate) else 0.0):
            return ""
        words = f"{NOT_TRIED}building takes about {candidate.seconds:.0f} s and {seconds_left:.0f} s were left."
        if candidate.predicted is None:
            return words
        return f"{words} It is predicted to reach {quantity(candidate.predicted, self._objective.unit)}."

    def _no_more_gpus(self, candidate: CandidatePlan, trials: Sequence[PlanTrial]) -> str:
        """Why more GPUs are not tried: where the cheapest plan is wanted and fewer GPUs keep every promise."""
        if candidate.tensor_parallel_size == 1 or self._document.workload.constraints.prefer == "fastest":
            return ""
        fewer = [
            trial
            for trial in trials
            if choosing.keeps_promises(trial, trials[0], self._objective)
            and trial.plan.get("tensor_parallel_size", 1) < candidate.tensor_parallel_size
        ]
        return f"{NOT_TRIED}{fewer[0].label} keeps every promise on fewer GPUs." if fewer else ""

    def keeps(self, candidate: CandidatePlan) -> bool:
        """Whether the candidate is predicted to keep the first promise."""
        return choosing.meets_objective(candidate.predicted, self._objective, self._before)


def leading_plan(document: StageInput) -> CandidatePlan | None:
    """The plan that is predicted to be the fastest, one of lower precision only by more than PREDICTION_ERROR; None
    where nothing is predicted. Compose may try another one first, which is quicker to build.
    """
    order = TrialOrder(document)
    predicted_plans = (candidate for candidate in order.candidates() if candidate.predicted is not None)
    allowed = [candidate for candidate in predicted_plans if not order.refusal(candidate)]
    return min(allowed, key=order.slowness, default=None)


def left_out_for_time(document: StageInput) -> list[PlanTrial]:
    """The plans that compose did not try because too little time was left."""
    composed = document.results.compose
    return [trial for trial in composed.trials if trial.seconds_wanted is not None] if composed else []


def never_tried(document: StageInput) -> list[PlanTrial]:
    """The plans that compose did not try, since time was short or another plan was faster."""
    trials = document.results.compose.trials if document.results.compose else []
    return [trial for trial in trials if trial.gate == "refused" and trial.skipped]


def minutes_wanted(document: StageInput, context: Context, seconds: Sequence[float]) -> float | None:
    """Minutes, in halves, with which a run would have tried the plans that were left out, which take so many `seconds`
    each; None for none, and where a workload may not ask for more.
    """
    if not seconds or document.workload.constraints.minutes >= MAX_MINUTES:
        return None
    wanted = sum(seconds)
    missing = max(wanted, wanted + context.overtime - context.seconds_left)
    return min(MAX_MINUTES, ceil((60 * document.workload.constraints.minutes + 1.2 * missing) / 30) / 2)


def _floor(document: StageInput) -> float:
    """The least ms of a whole request by the measured rates, in the smallest allowed precision; 0 where it is not known
    or the first objective is about another time.
    """
    workload, model, profile = document.workload, document.model, document.results.profile
    objective, traffic = workload.objectives[0], workload.traffic
    whole_request = objective.metric in ("e2e", "batch_latency") or objective.n == traffic.output_tokens
    if profile is None or model.kind != "decoder" or not whole_request:
        return 0.0
    served, lower = precisions_of_plans(workload, model, document.gpu_class)
    shape = traffic.batch, traffic.prompt_tokens, traffic.output_tokens
    cases = [request_case(model.config, model.parameters, precision, *shape) for precision in (served, *lower)]
    rates = burst_rates(profile.ceilings.model_dump())
    return min((floor_ms(case, rates) or 0.0 for case in cases if case), default=0.0)


def _whole_models(document: StageInput) -> list[WholeModel]:
    """The variants in the order of trial: the one that runs today first, then the quickest to build.

    Variants that only make tokens are left out for a model that generates none. A kernels plan of lower precision is
    made afterwards, from whatever lossy variants were explored.
    """
    baseline, generates = document.workload.baseline_plan_runner, document.model.kind == "decoder"
    variants = [
        variant for variant in registry.variants("model") if isinstance(variant, WholeModel) and variant.in_plans
    ]
    variants = [variant for variant in variants if generates or variant.encodes]
    variants = [variant for variant in variants if not (variant.lossy and variant.runner_name == kernels_plan.VARIANT)]
    return sorted(variants, key=lambda variant: (variant.name != baseline, variant.build_seconds))
