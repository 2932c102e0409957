"""Measures the plan interleaved with what the customer runs, at the workload's traffic, until the SLA is decided."""

from collections.abc import Iterable
from contextlib import closing

from kernels.model_files.digests import model_digest
from kernels.plan import Plan
from workers.cost.pricing import hourly_price
from workers.documents.base import Verdict
from workers.documents.stages import PlanCheck, PlanTrial, StageInput, VerifyResult
from workers.harness.context import Context, StageError
from workers.measuring.outcomes import hours_of
from workers.planning import verdict_words
from workers.planning.choosing import median_before, predicted_to_keep
from workers.planning.confirmation import (
    PlanMeasurement,
    measure_in_more_processes,
    sizes_of,
    unchanged,
    without_void_verdicts,
)
from workers.planning.expected_figures import expected_of
from workers.planning.processes import FurtherProcesses
from workers.planning.serving import serving_of
from workers.planning.trial_order import left_out_for_time, minutes_wanted, never_tried
from workers.planning.verification import Verification
from workers.stats.intervals import goodput, tokens_per_second
from workers.stats.sample_sizes import distributions


def plan_of(document: StageInput) -> Plan:
    """The composed plan. Raises StageError when there is none, or it is of another model."""
    if document.results.compose is None:
        raise StageError("verify: the run has no composed plan to verify")
    plan = Plan.model_validate(document.results.compose.plan)
    model = document.model
    files = [(file.path, file.sha256) for file in model.files]
    digest = model_digest(model.config, files, model.generated, model.seed)
    if plan.model_digest != digest:
        raise StageError(f"The plan is of the model {plan.model_digest[:12]}, not of {digest[:12]}.")
    return plan


def _try_plans(
    document: StageInput, context: Context, usd: float | None
) -> tuple[list[PlanMeasurement], dict[str, float], PlanMeasurement]:
    """The plans that were measured, those left out (as `Bench.attempts`), and the result."""
    composed = plan_of(document)
    with closing(FurtherProcesses(document, context)) as processes:
        context.report_progress(0.0, "loading the model, for before and after")
        with closing(Verification(document, context, usd, processes)) as bench:
            attempts, left_out = bench.attempts(composed)
            last = attempts[-1]
            final = bench.no_change(last) if last.why_not else last
        if not last.why_not:
            attempts = measure_in_more_processes(attempts, processes, usd)
            last = attempts[-1]
            final = unchanged(last, document, usd) if last.why_not else last
    return attempts, left_out, final


def _decide(document: StageInput, left_out: Iterable[str], final: PlanMeasurement) -> tuple[Verdict, list[PlanTrial]]:
    """The verdict, and the plans that were not verified and could change it. It is not *missed* where one that compose
    did not try, or that was `left_out`, may keep the promise.
    """
    verdict = verdict_words.overall_verdict(final.outcomes, final.quality, final.changed)
    composed = document.results.compose
    unverified = [trial for trial in composed.trials if trial.label in left_out] if composed else []
    untried, first = [*never_tried(document), *unverified], document.workload.objectives[0]
    hopeful = predicted_to_keep(untried, first, median_before(document))
    if verdict == "missed" and hopeful:
        verdict = "not_enough_samples"
    return verdict, left_out_for_time(document) if verdict == "missed" else hopeful


def run(document: StageInput, context: Context) -> VerifyResult:
    """The verify stage. Where no plan is confirmed, the result is what runs today."""
    usd, workload = hourly_price(document.prices, document.gpu_class), document.workload
    attempts, left_out, final = _try_plans(document, context, usd)
    busy = verdict_words.busy_share(document.results, final.environment)
    recommended, final = not attempts[-1].why_not, without_void_verdicts(final, busy)
    verdict, waiting = _decide(document, left_out, final)
    ended = "".join(item.sentence for item in document.left_out[:1])  # the composed plan is the first that is tried
    refusal = next((attempt.refusal for attempt in attempts if attempt.plan == plan_of(document)), ended)
    plan = final.plan
    usd_before, usd_after = hours_of(usd, sizes_of(document, plan))
    if not final.void:
        plan.expected = expected_of(plan, document, final.processes, final.environment, usd_after)
    plan.serving, not_served = serving_of(plan, document)
    if final.void and verdict == "not_enough_samples":
        words = f"Nothing is decided. {final.void}"
    elif recommended:
        facts = final.outcomes, final.speedup, final.quality, verdict, final.no_quality
        words = verdict_words.sentence(*facts, workload.compared_with)
    else:
        words = verdict_words.no_change_sentence(attempts, list(left_out), final.outcomes, verdict, document.left_out)
    for_time = verdict_words.left_out_words(waiting, workload.objectives[0], verdict)
    beside = "" if final.void else verdict_words.busy_words(busy, verdict)
    faults = [fault for fault in (final.void, final.failure) if fault not in words]
    turns = verdict_words.turns_words(attempts[-1].turns, final.turns)
    words = " ".join(filter(None, (beside, for_time, words, turns, *faults)))
    waiting += [trial for trial in left_out_for_time(document) if trial.predicted is None]
    seconds = {trial.label: trial.seconds_wanted or 0.0 for trial in waiting} | left_out
    ended_checks = [PlanCheck(label=item.key, confirmed=False, reason=item.sentence) for item in document.left_out]
    return VerifyResult(
        environment=final.environment,
        plan=plan.model_dump(),
        not_served=not_served,
        before=distributions(document.model, workload.objectives, final.before, usd_before),
        after=distributions(document.model, workload.objectives, final.after, usd_after),
        compared_with=workload.compared_with,
        turns=final.turns,
        gpus_before=document.tensor_parallel_size,
        tokens_per_second_before=tokens_per_second(final.before),
        tokens_per_second_after=tokens_per_second(final.after),
        goodput_after=goodput(final.after, workload.objectives),
        recommended=recommended,
        checks=[*ended_checks, *(attempt.check() for attempt in attempts)],
        speedup=final.speedup if recommended else None,
        outcomes=final.outcomes,
        quality=final.quality,
        served_ids=final.served_ids,
        refusal=refusal,
        profile=final.profile,
        no_profile=final.no_profile,
        verdict=verdict,
        minutes_wanted=minutes_wanted(document, context, [*seconds.values()]) if verdict != "met" else None,
        counted=document.model.counted,
        sentence=words,
    )


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
