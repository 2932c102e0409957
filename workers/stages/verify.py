"""Measures the plan interleaved with what the customer runs, at the workload's traffic, until the SLA is decided."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from kernels import engine
from kernels.engine.whole_model import rebuild_spread
from kernels.model_files.digests import plan_digest
from kernels.plan import Expected, Plan
from kernels.proof.logit_gate import LARGEST_DIFFERENCE
from workers.charts.text import plain, times
from workers.documents.stages import (
    ObjectiveOutcome,
    Quality,
    Speedup,
    StageInput,
    Verdict,
    VerifyResult,
)
from workers.documents.workload import Objective, Workload
from workers.harness.context import Context, StageError
from workers.measuring import quality_by_kind
from workers.measuring.conditions import watched
from workers.measuring.outcomes import outcomes, speedup
from workers.measuring.sample_sizes import LEAST_REQUESTS, distributions, is_enough, verdicts
from workers.measuring.served_model import device_of, dtype_of, free, kind_of, load, prepared, vocabulary
from workers.measuring.traffic import Clients
from workers.planning.precision import lowers_precision, rounding_of
from workers.planning.served_checks import judge_ids, too_fast
from workers.pricing import hourly_price
from workers.statistics import Served, goodput, median_interval, pooled, tokens_per_second
from workers.verdicts import overall

TIMING_SHARE = 0.6
"""Share of the stage's seconds for loading and timing. Quality gets the rest."""
LEAST_PAIRS = 9
LEAST_SECONDS = 8.0
"""The least interleaved pairs and seconds, even when time is up. The pairs are one more than a p50 needs."""


def plan_of(document: StageInput) -> Plan:
    """The composed plan. Raises StageError when there is none, or it is of another model."""
    if document.results.compose is None:
        raise StageError("verify: the run has no composed plan to verify")
    plan = Plan.model_validate(document.results.compose.plan)
    model = document.model
    files = [(file.path, file.sha256) for file in model.files]
    own = plan_digest(plan.version, model.config, files, model.generated, model.seed)
    if plan.model_digest != own:
        raise StageError(f"The plan is of the model {plan.model_digest[:12]}, not of {own[:12]}.")
    return plan


def take_turns(
    before: Clients, after: Clients, workload: Workload, usd: float | None, context: Context, reserve: float
) -> None:
    """A B A B … until the objectives are decided before and after, then after alone until they are decided.

    Before is not pursued where it is too close to call. Stops when `reserve` seconds of the stage are left, but never
    before LEAST_PAIRS and LEAST_SECONDS.
    """
    soonest = time.monotonic() + LEAST_SECONDS
    while True:
        late = context.seconds_left <= reserve and time.monotonic() > soonest
        pairs = len(before.served)
        past = verdicts(workload.objectives, before.served, usd)
        paired = pairs >= LEAST_REQUESTS and "not_enough_samples" not in past
        if pairs >= LEAST_PAIRS and (late or (paired and is_enough(workload.objectives, after.served, usd))):
            return
        if not paired or pairs < 2 * LEAST_REQUESTS:
            before.serve()
        after.serve()
        done = len(after.served)
        context.say(0.2 + 0.5 * done / (done + LEAST_REQUESTS), f"measured {pairs} pairs, {done} requests after")


def _expected(
    plan: Plan, objective: Objective, served: Sequence[Served], usd: float | None, document: StageInput
) -> dict[str, Any]:
    """The interval in which another run of the plan should lie.

    Another run is another process with another build. The interval spans the medians of verify and compose, widened by
    the spread between builds.
    """
    middle = median_interval(pooled(served, objective.metric, objective.n, usd))
    composed = document.results.compose
    found = [middle, *(each.primary for each in (composed.trials if composed else []) if each.chosen and each.primary)]
    spread = rebuild_spread(plan.options)
    traffic = document.workload.traffic
    return {
        "metric": objective.metric,
        "n": objective.n,
        "unit": objective.unit,
        "value": middle.value,
        "low": min(each.low for each in found) * (1 - spread),
        "high": max(each.high for each in found) * (1 + spread),
        "batch": traffic.batch,
        "prompt_tokens": traffic.prompt_tokens,
        "output_tokens": traffic.output_tokens,
        "concurrency": traffic.concurrency,
    }


def largest_loss(document: StageInput) -> float | None:
    """The rise of the disagreement that the workload allows; None for a plan of lower precision on generated weights,
    which is only tried where the workload lets quality be unverified."""
    lower = lowers_precision(plan_of(document), dtype_of(document))
    if lower and document.model.generated and document.workload.constraints.allow_unverified_quality:
        return None
    return document.workload.constraints.max_quality_loss


def sentence(
    found: Sequence[ObjectiveOutcome], gain: Speedup, judged: Quality | None, verdict: Verdict, no_quality: str = ""
) -> str:
    """The result in one honest sentence. `no_quality` is why quality was not judged."""
    said = {"met": "The SLA is met", "missed": "The SLA is missed", "too_close": "The SLA is too close to call"}
    parts = [_objective_words(each) for each in found]
    changed = _change_words(found[0].objective, gain)
    if judged is None:
        fidelity = f"quality could not be measured: {no_quality}"
    elif judged.acceptable and judged.tokens < judged.needed:
        fidelity = f"{judged.called} is undecided after {judged.tokens:,} of {judged.needed:,} {judged.compared}"
    else:
        fidelity = f"{judged.called} is {'acceptable' if judged.acceptable else 'not acceptable'}"
    return f"{said.get(verdict, 'The SLA is undecided')}: {'; '.join(parts)}; {changed}; {fidelity}."


def _change_words(objective: Objective, gain: Speedup) -> str:
    """The speedup as a sentence. It is a ratio of medians, whichever percentile was promised."""
    ratio = gain.ratio
    if not gain.difference:
        return f"the change of {ratio.value:.2f}x lies inside the noise floor, which is no difference"
    low, high = (ratio.low, ratio.high) if ratio.value >= 1 else (1 / ratio.high, 1 / ratio.low)
    change = f"the median {objective.title} is {times(ratio.value, objective.unit)} than before"
    worse = ", so better keep what runs today" if ratio.value < 1 else ""
    return f"{change} ({low:.2f} to {high:.2f}){worse}"


def _objective_words(outcome: ObjectiveOutcome) -> str:
    objective = outcome.objective
    value = f"{plain(outcome.after, 4)} {objective.unit}" if outcome.after is not None else "without a value"
    before = f" ({plain(outcome.before, 4)} before)" if outcome.before is not None else ""
    limit = f"{objective.direction.replace('_', ' ')} {objective.limit:,.10g} {objective.unit}"
    words = f"{objective.label} is {value}{before}, promised {limit}"
    if outcome.verdict == "not_enough_samples":
        words += f", {outcome.requests} requests of the {outcome.needed} or more it takes"
    if outcome.verdict == "too_close":
        share, allowed = outcome.over / outcome.samples, 100 - objective.percentile
        words += (
            f", too close to call: {outcome.over:,} of {outcome.samples:,} samples ({share:.2%}) lie beyond the limit, "
            f"where {allowed:.10g} % of all may"
        )
    return words


def overall_verdict(found: Sequence[ObjectiveOutcome], judged: Quality | None, changed: bool) -> Verdict:
    """The verdict on objectives and quality. A plan that `changed` the model is met only with proven quality."""
    if judged is not None and not judged.acceptable:
        return "missed"
    verdict = overall([each.verdict for each in found])
    proven = judged is not None and judged.tokens >= judged.needed
    return "not_enough_samples" if verdict == "met" and changed and not proven else verdict


def run(document: StageInput, context: Context) -> VerifyResult:
    """The verify stage."""
    plan, workload = plan_of(document), document.workload
    reserve = context.seconds_left * (1 - TIMING_SHARE)
    device, usd = device_of(document.gpu_class), hourly_price(document.prices, document.gpu_class)
    with ExitStack() as stack:
        context.say(0.0, "loading the model twice, for before and after")
        model = load(document, context)
        kind, words = kind_of(model), vocabulary(model)
        before = stack.enter_context(prepared(engine.runner(workload.baseline_runner, model), document))
        context.say(0.05, "preparing the plan")
        after = stack.enter_context(prepared(engine.apply(load(document, context, plan.dtype), plan), document))
        past, now = (Clients(each, workload.traffic, kind, words, device, seed=2) for each in (before, after))
        for clients in (past, now):
            clients.warm_up()
        with watched(document) as environment:
            take_turns(past, now, workload, usd, context, reserve)
        judged, no_quality = quality_by_kind.measure(document, context, before, after, largest_loss(document))
        allowed = LARGEST_DIFFERENCE[rounding_of(plan)]
        served_ids = judge_ids(engine.runner("eager", model), now.kept, allowed)
        wrong = served_ids.sentence if served_ids is not None and not served_ids.acceptable else None
        refusal = wrong or too_fast(after, plan, document, now) or ""
    free()
    found = outcomes(workload.objectives, past.served, now.served, usd)
    pairs = len(past.served)
    gain = speedup(workload.objectives[0], past.served, now.served[:pairs], usd)
    changed = bool(plan.ops) or (plan.runner, plan.dtype) != (workload.baseline_runner, dtype_of(document))
    verdict = "missed" if refusal else overall_verdict(found, judged, changed)
    measured = environment()
    expected = _expected(plan, workload.objectives[0], now.served, usd, document)
    plan.expected = Expected(device=measured.device, **expected)
    return VerifyResult(
        environment=measured,
        plan=plan.model_dump(),
        before=distributions(document.model, workload.objectives, past.served, usd),
        after=distributions(document.model, workload.objectives, now.served, usd),
        tokens_per_second_before=tokens_per_second(past.served),
        tokens_per_second_after=tokens_per_second(now.served),
        goodput_after=goodput(now.served, workload.objectives),
        speedup=gain,
        outcomes=found,
        quality=judged,
        served_ids=served_ids,
        refusal=refusal,
        verdict=verdict,
        counted=document.model.counted,
        sentence=f"The plan is refused. {refusal}" if refusal else sentence(found, gain, judged, verdict, no_quality),
    )


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
