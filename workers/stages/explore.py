"""The variants that the leading plan may use at the model's own shapes, proven by the accuracy gate and timed.

Which plan leads is predicted (`planning/trial_order.py`). Cases are tried the costliest first; each gets a share of the
stage's seconds by the time it costs. Every candidate is kept, with the reason it was chosen or not.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from pydantic import ValidationError

from kernels import registry, runners
from kernels.hardware import GPUS
from kernels.measure.roofline import burst_rates, floor_ms
from kernels.measure.timing import StoppingRule
from kernels.model.layer_ops import keeps_codes
from kernels.model_files.config import value
from kernels.model_files.families import stored_rows
from kernels.ops import TORCH_VARIANTS, Case, GroupedCase, LinearCase, LmHeadCase, case_from
from kernels.quant.formats import EXPERTS
from kernels.tune.autotune import TuningContext, try_case
from kernels.tune.trial import Trial
from kernels.tune.tuning_cache import TuningCache
from workers.documents.measurement import Candidate, Ceilings
from workers.documents.model import ModelManifest
from workers.documents.profile import ProfileResult
from workers.documents.stages import ExploreResult, StageInput
from workers.documents.workload import BETWEEN_TOKENS, Constraints, Objective, Workload
from workers.harness.context import Context, StageError
from workers.measuring.journal import Journal
from workers.measuring.served_model import device_of, watch_device
from workers.planning import kernels_plan
from workers.planning.trial_order import CandidatePlan, TrialOrder, leading_plan
from workers.prediction.precisions import lossy_refusal, stored_precision
from workers.wording.text import percent

LOSSY = ("int8", "fp8", "nvfp4", "int4")
"""The lower precisions of products; those of experts have EXPERTS."""
CASES_SHARE = 0.9
"""Share of the stage's seconds that the cases divide among themselves."""
CASE_RULE = StoppingRule(seconds=0.4, width=0.02, least=8)
"""The rule by which the timing of one case stops. Compose times the best candidates again in the whole model; where no
plan is made of them, they only explain."""
MAX_SECONDS, MINUTES_SHARE = 60.0, 0.1
"""The cases get so many seconds together, and no larger share of the workload's minutes."""
PROMPT_SHARE = 0.15
"""Where reading the prompt is a smaller share of what the first promise is about, no variant of its operations is worth
trying. Qwen3-30B-A3B, whose prompt is 13 %, took 123.6 ms with those that were tried for 49 s and 121.6 with the usual
ones (`panel-f880b28.json`)."""


@dataclass(frozen=True)
class ProfiledCase:
    """A case of the profile, how often it runs in one request, and its time there."""

    case: Case
    per_request: float
    ms: float


def run(document: StageInput, context: Context) -> ExploreResult:
    """The explore stage. Raises StageError when there is no profile."""
    profile = document.results.profile
    if profile is None:
        raise StageError("The explore stage needs the profile stage's result.")
    device = torch.device(device_of(document.gpu_class))
    journal = Journal(document, context)
    tuning = TuningContext(
        device,
        GPUS[document.gpu],
        profile.ceilings.model_dump(),
        CASE_RULE,
        only=offered_variants(document.workload),
        on_trial=lambda trial, building: journal.note(trial.id, trial.label, journal.variant_seconds + building),
        on_reference=lambda case: journal.note(case.key, f"the reference of {case.key}", journal.most_seconds),
        skip_reasons={left_out.key: left_out.sentence for left_out in journal.left_out},
    )
    cases, sentence = wanted_cases(document, profile)
    with watch_device(document) as environment:
        choices = TuningCache(environment().model_dump())
        candidates = _explore(document, cases, context, tuning, journal, choices)
    return ExploreResult(environment=environment(), ceilings=profile.ceilings, candidates=candidates, sentence=sentence)


def wanted_cases(document: StageInput, profile: ProfileResult) -> tuple[list[ProfiledCase], str]:
    """The cases that the leading plan may consist of, costliest first, and why others are left out ("" for none).

    Without a plan of composed variants they are the model's own, one by one, as the profile saw them.
    """
    if document.tensor_parallel_size > 1:
        gpus = f"{document.tensor_parallel_size} GPUs hold the model"
        return [], f"Nothing was explored: {gpus}, and a plan for several takes no variants of its operations."
    composed = composed_cases(kernels_plan.cases(document), profile.ceilings)
    plan = leading_plan(document)
    if plan is None or plan.variant.runner_name != kernels_plan.MEGAKERNEL:
        return composed or read_cases(profile.cases, profile.ceilings), ""
    words = f"{plan.label} is predicted to be the fastest plan, and runs no operation of a decode step by itself"
    share = _prompt_share(document, plan)
    if share < PROMPT_SHARE:
        small = f"the prompt is {percent(share, 0)} of what the first promise is about"
        return [], f"Nothing was explored: {words}; {small}."
    cases = composed_cases(kernels_plan.prompt_cases(document), profile.ceilings)
    return cases, f"Only a prompt's operations were explored: {words}."


def _prompt_share(document: StageInput, plan: CandidatePlan) -> float:
    """The share of the first objective's predicted time that the plan reads the prompt for."""
    first = document.workload.objectives[0]
    if first.metric in BETWEEN_TOKENS:
        return 0.0
    prompt = TrialOrder(document).predicted(plan.variant, plan.tensor_parallel_size, Objective(metric="ttft", limit=1))
    request_ms = plan.predicted if first.unit == "ms" else None
    return prompt / request_ms if prompt and request_ms else 1.0


def _explore(
    document: StageInput,
    cases: list[ProfiledCase],
    context: Context,
    tuning: TuningContext,
    journal: Journal,
    choices: TuningCache,
) -> list[Candidate]:
    candidates: list[Candidate] = []
    for position, (profiled, seconds) in enumerate(_shares(cases, context, document.workload.constraints.minutes)):
        context.report_progress(
            position / len(cases), f"trying {profiled.case.op} variants: {_shape(profiled.case)}", _progress(candidates)
        )
        lossy, forbidden = lossy_cases(profiled.case, document.workload.constraints, document.model)
        make = partial(_candidates_of, tuning, choices, profiled, lossy, seconds, forbidden)
        candidates += journal.once(profiled.case.key, list[Candidate], make)
        runners.free()
    refused = sum(candidate.gate == "refused" for candidate in candidates)
    context.report_progress(
        1.0, f"candidates tried: {len(candidates) - refused}, refused: {refused}; cases: {len(cases)}"
    )
    return candidates


def _candidates_of(
    tuning: TuningContext,
    choices: TuningCache,
    profiled: ProfiledCase,
    lossy: list[Case],
    seconds: float,
    forbidden: str,
) -> list[Candidate]:
    """The candidates of one case; the best is kept in the tuning cache."""
    trials = try_case(tuning, profiled.case, lossy, seconds, forbidden)
    _keep(choices, profiled.case, trials)
    return [candidate(trial, profiled.per_request) for trial in trials]


def offered_variants(workload: Workload) -> frozenset[str]:
    return frozenset(variant.name for variant in registry.variants()) - set(workload.constraints.exclude)


def composed_cases(cases: Mapping[Case, float], ceilings: Ceilings) -> list[ProfiledCase]:
    """The cases of a plan of composed variants, which packs matrices and fuses what follows them, costliest first."""
    rates = burst_rates(ceilings.model_dump())
    profiled = [ProfiledCase(case, count, count * (floor_ms(case, rates) or 0.0)) for case, count in cases.items()]
    return sorted(profiled, key=lambda case: -case.ms)


def read_cases(rows: list[dict[str, Any]], ceilings: Ceilings) -> list[ProfiledCase]:
    """The cases that some variant is made for, costliest first, by measured ms, else by the floor."""
    ops = {variant.op for variant in registry.variants()} - {"model"}
    cases: dict[str, ProfiledCase] = {}
    for row in rows:
        try:
            case = case_from.validate_python(row["case"])
        except (ValidationError, KeyError):
            continue
        if case.op in ops:
            before = cases.get(case.key, ProfiledCase(case, 0, 0))
            calls = float(row.get("per_request") or 0)
            ms = float(row.get("ms") or calls * (floor_ms(case, burst_rates(ceilings.model_dump())) or 0.0))
            cases[case.key] = ProfiledCase(case, before.per_request + calls, before.ms + ms)
    return sorted(cases.values(), key=lambda case: -case.ms)


def _shares(cases: list[ProfiledCase], context: Context, minutes: float) -> Iterator[tuple[ProfiledCase, float]]:
    """Each case with its seconds, in proportion to its time, but at least half of an even share."""
    reserve = context.seconds_left * (1 - CASES_SHARE) if context.seconds_left != float("inf") else 0.0
    end = time.monotonic() + min(MAX_SECONDS, MINUTES_SHARE * 60 * minutes)
    for position, case in enumerate(cases):
        seconds_left = min(end - time.monotonic(), context.seconds_left - reserve)
        ahead = cases[position:]
        cost = sum(other.ms for other in ahead)
        share = max(case.ms / cost if cost else 0.0, 0.5 / len(ahead))
        yield case, max(0.0, seconds_left * share)


def lossy_cases(case: Case, constraints: Constraints, model: ModelManifest) -> tuple[list[Case], str]:
    """The case with its weights in each lower precision, and the sentence that forbids them ("" when allowed)."""
    if not isinstance(case, LinearCase | LmHeadCase | GroupedCase):
        return [], ""
    names: tuple[str, ...] = EXPERTS if isinstance(case, GroupedCase) else LOSSY
    stored, wanted = stored_rows(model.config), list(constraints.precisions)
    if names == EXPERTS or stored:
        wanted += stored_precision(constraints, model)
    if stored and not keeps_codes(case, value(model.config, "vocab_size") or 0):
        names = tuple(name for name in names if name != stored)
    allowed = [name for name in names if name in wanted]
    lossy: list[Case] = [case.model_copy(update={"weights": name}) for name in allowed or names]
    return lossy, lossy_refusal((allowed or names)[0], constraints, model)


def _progress(candidates: list[Candidate]) -> dict[str, str] | None:
    """What is known so far, for the run's page."""
    timed = [candidate for candidate in candidates if candidate.ms is not None]
    better = [candidate for candidate in timed if candidate.chosen and candidate.variant not in TORCH_VARIANTS]
    if not timed:
        return None
    return {"candidates timed": str(len(timed)), "shapes with something faster": str(len(better))}


def candidate(trial: Trial, per_request: float) -> Candidate:
    return Candidate(
        **trial.shared(),
        id=trial.id,
        summary=registry.variant(trial.variant).summary,
        late=trial.late,
        floor_ms=trial.floor_ms,
        per_request=per_request,
        chosen=trial.chosen,
    )


def _keep(choices: TuningCache, case: Case, trials: list[Trial]) -> None:
    """Stores the best lossless choice in the tuning cache. A disk error is ignored."""
    if any(trial.chosen and not trial.lossy for trial in trials):
        try:
            choices.keep(case, trials)
        except OSError as error:
            print(f"The choice for {case.key} could not be kept: {error}")


def _shape(case: Case) -> str:
    return " ".join(f"{name}={value}" for name, value in case.model_dump().items() if isinstance(value, int) and value)


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
