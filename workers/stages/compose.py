"""Whole-model plans, each built, compared with the model and measured, the most valuable first; one of them is taken.

The present deployment's figure is baseline's; the next plan is that with the most predicted gain for each second
(`planning/trial_order.py`). Without a plan of composed kernels the best is then tried with explore's op variants.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kernels import registry, runners
from kernels.model import decoder
from kernels.model.loading import kind_of
from kernels.model_files.families import stored_rows
from kernels.plan import Plan, PlannedOp
from kernels.quant.formats import EXPERTS
from kernels.registry import Variant
from kernels.runners import Runner
from kernels.runners.whole_model import WholeModel
from kernels.tune.plan_search import ChosenOps
from workers.documents.measurement import Candidate
from workers.documents.stages import ComposeResult, PeerTrial, PlanTrial, Skipped, StageInput
from workers.harness.context import Context, StageError
from workers.measuring.journal import MAX_SECONDS, Journal
from workers.measuring.served_model import dtype_of, load_once, planned_runner, watch_device
from workers.planning import kernels_plan, peers, ranking, several_gpus, steps, summaries
from workers.planning.build_times import BuildTimes
from workers.planning.choosing import choose_plan
from workers.planning.confirmation import baseline_plan
from workers.planning.precision import lowers_precision
from workers.planning.search_watch import parts_left_out
from workers.planning.trial_order import CandidatePlan, TrialOrder
from workers.planning.trials import (
    MEASURE_SECONDS,
    OVERRUN_SECONDS,
    TrialRunner,
    TrialTimeouts,
    reference_of,
    untried_plan,
)
from workers.prediction.precisions import lossy_refusal
from workers.wording.stages import NOT_TRIED
from workers.wording.text import quantity

COMPARED_TOKENS = 2048
"""Tokens that a plan of lower precision is compared on; one that keeps the precision, on one batch."""
MEASURED_BEFORE = "Measured by the run whose search this one resumes."
GRACE_SECONDS = 30.0
"""Seconds by which building may exceed the time left, as long as there is no alternative to compare."""


def run(document: StageInput, context: Context) -> ComposeResult:
    """The compose stage. Raises StageError when not even the present deployment's runner works."""
    context.report_progress(0.0, "loading the model")
    with watch_device(document) as environment:
        composer = _Composer(document, context)
        trials = composer.trials()
    best = next((trial for trial in trials if trial.chosen), None)
    if best is None:
        raise StageError(summaries.no_plan(trials[0], environment()))
    context.report_progress(1.0, f"the best plan is {best.label}")
    return ComposeResult(
        environment=environment(),
        trials=trials,
        peers=composer.peers,
        steps=composer.steps,
        plan=best.plan,
        choice=composer.choice,
    )


class _Composer:
    """The trials of one model."""

    def __init__(self, document: StageInput, context: Context) -> None:
        self.document, self.context = document, context
        self.dtype = dtype_of(document)
        self.model = load_once(document, context)
        self._loading_seconds = context.shared["loading_seconds"]
        self.kind = kind_of(self.model)
        self.trial_runner = TrialRunner(document)
        self.done: list[PlanTrial] = []
        self.steps: list[PlanTrial] = []
        self.peers: list[PeerTrial] = []
        self.choice = ""
        self._chosen: dict[Sequence[str], ChosenOps] = {}
        self._journal = Journal(document, context)
        self._order = TrialOrder(document)
        self._overtime = 0.0
        self._reference_tokens: int | None = None
        self._predicted: float | None = None

    def trials(self) -> list[PlanTrial]:
        """Every trial, the winner flagged, each with its reason."""
        self._compare_with(0)
        self._once("baseline", self._add_baseline)
        candidates = self._order.candidates()
        before = self._measured_before([candidate.label for candidate in candidates])
        self.done += before.values()
        candidates = [candidate for candidate in candidates if candidate.label not in before]
        while candidates:
            following = self._order.ranked(candidates, ranking.fastest(self.done, self._lower))[0]
            candidates.remove(following)
            self._once(f"whole {following.label}", partial(self._try_whole, following))
        seconds_left = self.context.seconds_left
        self.steps = steps.kernels_steps(self._journal, self.trial_runner, self.model, self.done, seconds_left)
        self._measure_peers()
        best = ranking.fastest(self.done, self._lower)
        if best is not None:
            base = Plan.model_validate(best.plan)
            composes = kernels_plan.composes(self.document, self.model)
            if composes:
                for name in kernels_plan.lossy_variants(self.model):
                    self._once(f"lossy {name}", partial(self._try_lossy_kernels, name))
            for lossy in () if composes or base.ops or base.tensor_parallel_size > 1 else (False, True):
                self._once(f"ops {lossy}", partial(self._try_with_ops, best.label, base, lossy))
            self._once("dtype", partial(self._try_lower_dtype, best.label, base))
        self.done += parts_left_out(self.document, self._plan("kernels", {}, []))
        choice = choose_plan(self.done, self.document.workload, self.document.model.counted)
        if choice is not None:
            ranking.explain(self.done, self._lower, choice.trial)
            self.choice = choice.sentence
        return self.done

    def _measured_before(self, labels: Sequence[str]) -> dict[str, PlanTrial]:
        """Of these plans those that keep the precision and that the run measured whose search this one resumes: those
        that passed, and those that its verify refused.
        """
        trials = (trial for trial in self.document.trials_before if trial.label in labels and trial.primary)
        return {
            trial.label: trial.model_copy(
                update={"chosen": False, "reason": MEASURED_BEFORE if trial.gate == "pass" else trial.reason}
            )
            for trial in trials
            if trial.gate in ("pass", "fail") and not lowers_precision(Plan.model_validate(trial.plan), self.dtype)
        }

    def _measure_peers(self) -> None:
        """Other engines, once, on the model as it is served today. They generate, so other models have none."""
        if self.kind == "decoder" and not self.peers:
            arguments = self.document, self.context, self.model, self._measuring_seconds()
            self.peers = [self._journal.once("vllm", PeerTrial, partial(peers.measure_vllm, *arguments))]

    def _once(self, key: str, add: Callable[[], object]) -> None:
        """Has `add` append its trials. If it made them before the stage was started again, appends those instead."""
        count = len(self.done)

        def added() -> list[PlanTrial]:
            add()
            return self.done[count:]

        self.done[count:] = self._journal.once(key, list[PlanTrial], added)

    @property
    def _lower(self) -> bool:
        return self.document.workload.objectives[0].direction != "at_least"

    def _compare_with(self, tokens: int) -> None:
        """Has trials compared with the model on so many tokens at least, one batch at least."""
        if self._reference_tokens is None or self._reference_tokens < tokens:
            self.trial_runner.reference = reference_of(self.document, self.context, self.model, tokens)
            self._reference_tokens = tokens

    def _lower_dtype(self) -> str | None:
        """The 16-bit precision that a float32 model may be tried in."""
        constraints, generated = self.document.workload.constraints, self.document.model.generated
        if self.dtype != "fp32" or (generated and not constraints.allow_unverified_quality):
            return None
        return next((dtype for dtype in ("bf16", "fp16") if dtype in constraints.precisions), None)

    @property
    def _candidates(self) -> list[Candidate]:
        explored = self.document.results.explore
        return explored.candidates if explored else []

    @property
    def _stored(self) -> str:
        """The precision of the model's own rows, where the workload allows it for them alone; else ""."""
        stored = stored_rows(self.document.model.config)
        return "" if stored in self.document.workload.constraints.precisions else stored

    @property
    def _has_alternative(self) -> bool:
        """Whether another plan than the present one was measured."""
        return sum(trial.primary is not None for trial in self.done) > 1

    def _add_baseline(self) -> None:
        """The present deployment's plan with baseline's figure; measured here where baseline has none."""
        runner, baseline = self.document.workload.baseline_plan_runner, self.document.results.baseline
        plan = baseline_plan(self.document)
        if baseline is None or baseline.primary is None or baseline.runner != runner or baseline.dtype != self.dtype:
            self._attempt(runner, plan, lambda: runners.runner(runner, self.model), lossy=False, worst=0.0)
            return
        trial = untried_plan(runner, plan, self.document, "pass")
        trial.primary, trial.keeps = baseline.primary, baseline.keeps
        trial.tokens_per_second = baseline.tokens_per_second
        self.done.append(trial)

    def _try_whole(self, candidate: CandidatePlan) -> None:
        """Tries the candidate, unless it is refused, is predicted to be no better than others, or time is short."""
        variant, size, label, count = candidate.variant, candidate.tensor_parallel_size, candidate.label, len(self.done)
        plan = self._plan(variant.runner_name, variant.options, [], size)
        partly = kernels_plan.partly_stored(self.model, self._stored) if variant.weights == self._stored else ""
        if self._refused(candidate, label, plan, self._order.refusal(candidate) or partly):
            return
        self._predicted = candidate.predicted
        if variant.name == kernels_plan.VARIANT:
            self._try_kernels(variant)
        elif variant.runner_name == kernels_plan.MEGAKERNEL:
            self._try_megakernel(label, plan, variant)
        elif size > 1:
            self._apply(label, plan, variant)
        else:
            make = variant.build(several_gpus.case_of(variant, self.document, size), {})
            self._attempt(label, plan, lambda: make(self.model), variant.lossy, variant.build_seconds)
        for trial in self.done[count:]:
            trial.predicted = candidate.predicted
            if summaries.ended_for_time(trial):
                trial.seconds_wanted = variant.build_seconds + self._order.measuring_seconds(candidate.predicted)
            if trial.build_seconds is not None:
                BuildTimes(self.document).note(variant.name, trial.build_seconds)
        self._predicted = None

    def _refused(self, candidate: CandidatePlan, label: str, plan: Plan, reason: str) -> bool:
        """Whether the plan is not tried: for the reason, because others are better, or because time is short."""
        skipped: Skipped | None = None
        if not reason and (reason := self._order.why_not(candidate, self.done, self.context.seconds_left)):
            skipped = "prediction"
        elif not reason and (reason := self._too_late(candidate)):
            skipped = "time"
        if reason:
            self._refuse(label, plan, reason, skipped, candidate.seconds)
            self.done[-1].predicted = candidate.predicted
        return bool(reason)

    def _too_late(self, candidate: CandidatePlan) -> str:
        """Why there is no time for the candidate, as a sentence; "" where there is.

        One that is predicted to keep the promise has overtime; so has one without a prediction, until there is a figure
        to compare with today's.
        """
        seconds_left = self.context.seconds_left
        most = seconds_left + (0.0 if self._has_alternative else GRACE_SECONDS) if self._journal.most_seconds else 0.0
        overtime = self._order.overtime(self.context, self.done)
        alone = candidate.predicted is None and not self._has_alternative
        self._overtime = overtime if alone or self._order.keeps(candidate) else 0.0
        return self._order.too_late(candidate, seconds_left, max(most, self._overtime), overtime)

    def _try_kernels(self, variant: Variant, lower: Sequence[str] = ()) -> PlanTrial | None:
        """The plan of composed variants, or None where the `lower` precisions change nothing."""
        chosen = self._chosen_ops(lower)
        if variant.lossy and not any(registry.variant(op.variant).lossy for op in chosen.ops):
            return None
        plan = self._plan("kernels", kernels_plan.runner_options(chosen.ops), chosen.ops)
        trial = self._apply(kernels_plan.label(chosen), plan, variant)
        trial.notes = chosen.notes
        return trial

    def _try_lossy_kernels(self, name: str) -> None:
        variant: Any = registry.variant(name)
        candidate, constraints = self._order.candidate(variant), self.document.workload.constraints
        refusals = {
            weights: lossy_refusal(weights, constraints, self.document.model)
            for weights in kernels_plan.LOSSY_VARIANTS[name]
        }
        wanted = (*constraints.precisions, *EXPERTS, self._stored)
        lower = tuple(name for name, refusal in refusals.items() if not refusal and name in wanted)
        explored = self._order.excluded(variant) if self._candidates else self._order.refusal(candidate)
        reason = explored or ("" if lower else next(iter(refusals.values())))
        plan = self._plan(kernels_plan.VARIANT, {}, [])
        reason = reason or kernels_plan.why_unrounded(self.model, name, self._stored)
        if not self._refused(candidate, variant.name, plan, reason) and (trial := self._try_kernels(variant, lower)):
            trial.predicted = candidate.predicted

    def _try_megakernel(self, label: str, plan: Plan, variant: WholeModel) -> PlanTrial:
        """The megakernel plan, in the form that the model was stored in. On one GPU its prompts use the ops that the
        kernels plan has for them.
        """
        plan = kernels_plan.in_stored_form(plan, self.model)
        if plan.tensor_parallel_size == 1:
            explored = self._chosen_ops(()).ops if self._candidates else []
            ops = kernels_plan.prompt_ops(self.document, self.model, explored)
            plan = plan.model_copy(update={"ops": ops})
        return self._apply(label, plan, variant)

    def _apply(self, label: str, plan: Plan, variant: Variant) -> PlanTrial:
        """Tries the plan on the shared model, or on one of its own where the plan would change the model's modules."""
        own = partial(planned_runner, self.document, self.context, plan, self.model)
        shares = self.document.tensor_parallel_size == 1 and not decoder.refusal(self.model)
        make = partial(runners.apply, self.model, plan) if shares else own
        return self._attempt(label, plan, make, variant.lossy, variant.build_seconds)

    def _chosen_ops(self, lower: Sequence[str]) -> ChosenOps:
        """The ops of a kernels plan, chosen once; none where such a plan cannot be made."""
        if lower not in self._chosen:
            chosen = ChosenOps()
            if kernels_plan.composes(self.document, self.model):
                compact, seconds_left = decoder.Decoder(self.model), self.context.seconds_left
                self.context.report_progress(0.1, "choosing the variants of the kernels plan in the whole model")
                arguments = self.document, compact, self._candidates, seconds_left, self._journal, lower
                search = partial(kernels_plan.choose_ops, *arguments)
                chosen = self._journal.once(f"search {' '.join(lower)}", ChosenOps, search)
            self._chosen[lower] = chosen
        return self._chosen[lower]

    def _try_with_ops(self, label: str, base: Plan, lossy: bool) -> None:
        """The base plan with the op variants that won; none where torch's own won everywhere."""
        ops = ranking.winners(self._candidates, lossy)
        if not ops or (lossy and ops == ranking.winners(self._candidates, lossy=False)):
            return
        plan = base.model_copy(update={"ops": [ranking.planned_op(candidate) for candidate in ops]})
        name = f"{label} + {' + '.join(dict.fromkeys(candidate.variant for candidate in ops))}"
        self._rebuild(label, name, plan, lossy or lowers_precision(base, self.dtype))

    def _try_lower_dtype(self, label: str, base: Plan) -> None:
        """The base plan in 16 bits, where the workload allows it and the model is served in 32."""
        if (dtype := self._lower_dtype()) is None:
            return
        plan = base.model_copy(update={"dtype": dtype})
        self._rebuild(label, f"{label} in {dtype}", plan, lossy=True)

    def _rebuild(self, base: str, label: str, plan: Plan, lossy: bool) -> None:
        """Tries the plan on a model of its own, if what building the plan `base` took and a measurement are left."""
        took = next((trial.build_seconds or 0.0 for trial in self.done if trial.label == base), 0.0)
        wanted, seconds_left = took + self._order.measuring_seconds(), self.context.seconds_left
        if wanted > seconds_left:
            words = f"{NOT_TRIED}building and measuring take about {wanted:.0f} s and {seconds_left:.0f} s were left."
            self._refuse(label, plan, words, "time", wanted)
        else:
            self._attempt(label, plan, partial(planned_runner, self.document, self.context, plan), lossy, took)

    def _attempt(self, label: str, plan: Plan, make: Callable[[], Runner], lossy: bool, worst: float) -> PlanTrial:
        """Tries the plan, whose build takes `worst` seconds at worst. The first plan, today's, may take any time."""
        count = len(self.done)
        unit = self.document.workload.objectives[0].unit
        predicted = f"; predicted to reach {quantity(self._predicted, unit)}" if self._predicted else ""
        self.context.report_progress(min(0.9, 0.1 + 0.12 * count), f"trying the plan {label}{predicted}")
        times = TrialTimeouts(self._building_seconds(), self._measuring_seconds())
        if reason := self._journal.why_left_out(f"plan {label}"):
            trial = untried_plan(label, plan, self.document, "error", reason)
        else:
            self._compare_with(COMPARED_TOKENS if lossy else 0)
            longest = self._journal.plan_seconds(2 * worst + self._loading_seconds) if self.done else MAX_SECONDS
            self._journal.note(f"plan {label}", f"the plan {label}", longest)
            trial = self.trial_runner.attempt(label, plan, make, times, lossy)
        self.done.append(trial)
        self.context.report_progress(
            min(0.95, 0.16 + 0.12 * count), f"tried the plan {label}", summaries.figures(self.done)
        )
        return trial

    def _building_seconds(self) -> float:
        """The longest that a build may take: the time left and a little more. The first plan has no limit."""
        grace = OVERRUN_SECONDS if self._has_alternative else GRACE_SECONDS
        return max(self.context.seconds_left + grace, self._overtime) if self.done else float("inf")

    def _measuring_seconds(self) -> float:
        return min(MEASURE_SECONDS, max(0.5, 0.1 * self.context.seconds_left))

    def _refuse(self, label: str, plan: Plan, reason: str, skipped: Skipped | None, seconds: float) -> None:
        trial = untried_plan(label, plan, self.document, "refused", reason)
        trial.skipped, trial.seconds_wanted = skipped, seconds if skipped == "time" else None
        self.done.append(trial)

    def _plan(self, runner: str, options: dict[str, Any], ops: list[PlannedOp], tensor_parallel_size: int = 1) -> Plan:
        return Plan(
            model_digest=self.document.model.digest,
            gpu=self.document.gpu,
            tensor_parallel_size=tensor_parallel_size,  # type: ignore[arg-type]
            runner=runner,  # type: ignore[arg-type]
            dtype=self.dtype,  # type: ignore[arg-type]
            options=options,
            ops=ops,
        )


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
