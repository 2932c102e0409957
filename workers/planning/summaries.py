"""Describes plans: one in a sentence, by its runner and the kernels of each part of the work, many by their figures."""

from collections.abc import Sequence

from kernels import registry
from kernels.ops import PARTS
from kernels.plan import Plan, PlannedOp
from kernels.runners.whole_model import WholeModel
from workers.documents.measurement import Environment
from workers.documents.stages import PlanTrial
from workers.wording.stages import NOT_MEASURED, NOT_TRIED
from workers.wording.text import capitalised, percent

ROUNDING = "rounding"
"""The option that says how weights were rounded. Plans that differ in it alone are of one variant."""


def describe_plan(plan: Plan, generates: bool = True) -> str:
    """`Static cache and CUDA graphs, nothing compiled; attention by flash_triton and step_hopper, products by skinny.`

    Torch's own variants, which run wherever nothing else is named, are not told. A model that does not generate runs
    one forward pass, without a cache.
    """
    variants = (variant for variant in registry.variants("model") if isinstance(variant, WholeModel))
    runners = [variant for variant in variants if variant.runner_name == plan.runner]
    stated = {key: value for key, value in plan.options.items() if key != ROUNDING}
    alike = (variant for variant in runners if {k: v for k, v in variant.options.items() if k != ROUNDING} == stated)
    runner = next(alike, runners[0] if runners else None)
    parts = ", ".join(f"{part} by {_joined(names)}" for part, names in _by_part(plan.ops).items())
    if parts and plan.runner == "megakernel":
        parts = f"for prompts {parts}"
    runs: str = plan.runner
    if runner is not None:
        runs = runner.summary if generates else runner.forward_summary or runner.summary
    if plan.options.get(ROUNDING, {}).get("method") == "gptq":
        runs += ", rounded by GPTQ"
    if plan.placement == "pipeline_parallel":
        runs += f", whole layers on one of {plan.tensor_parallel_size} GPUs after the other"
    elif plan.tensor_parallel_size > 1:
        runs += f", over {plan.tensor_parallel_size} GPUs"
    words = "; ".join(part for part in (runs, parts) if part)
    return f"{capitalised(words)}."


def _by_part(ops: list[PlannedOp]) -> dict[str, list[str]]:
    """The variants of each part that are not torch's own, in the order of `PARTS`."""
    by_part: dict[str, list[str]] = {part: [] for part in PARTS.values()}
    for op in ops:
        variant, part = registry.variant(op.variant), PARTS.get(op.op, op.op)
        names = by_part.setdefault(part, [])
        if (variant.lossy or not variant.peer) and variant.name not in names:
            names.append(variant.name)
    return {part: names for part, names in by_part.items() if names}


def _joined(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def figures(trials: Sequence[PlanTrial]) -> dict[str, str]:
    """The figure of each plan that was tried, with its unit, by the plan's label; its gate's answer where it has none.

    Refused plans are left out. For the run's page.
    """
    return {
        trial.label: f"{trial.primary.value:,.4g} {trial.unit}" if trial.primary else trial.gate
        for trial in trials
        if trial.gate != "refused"
    }


def ended_for_time(trial: PlanTrial) -> bool:
    """Whether a trial that was begun was ended because the stage's time was over."""
    return trial.gate == "error" and trial.skipped == "time"


def no_other_plan(trials: Sequence[PlanTrial]) -> str:
    """Why nothing but today's plan, the chosen one, has a figure; "" where another has one.

    Plans that cannot run on the device or that the workload does not allow are not told.
    """
    others = [trial for trial in trials if not trial.chosen]
    if not others or any(trial.primary for trial in others):
        return ""
    relevant = [trial for trial in others if trial.gate != "refused" or trial.skipped]
    reasons = [(trial.label, trial.reason.removeprefix(NOT_TRIED).removeprefix(NOT_MEASURED)) for trial in relevant]
    why = " ".join(f"“{label}”: {reason}" for label, reason in reasons)
    sentence = f"No other plan was measured, so none is known to be faster. {why}".rstrip()
    late = any(trial.skipped == "time" for trial in relevant)
    return f"{sentence} A run with more minutes may measure more." if late else sentence


def no_plan(baseline: PlanTrial, environment: Environment) -> str:
    """Why there is no plan, by what became of today's runner; on a busy machine other programs may be the cause."""
    sentence, share = f"No plan could be run. {baseline.label}: {baseline.reason}", environment.busy_share
    if share is None:
        return sentence
    return (
        f"{sentence} Other programs used {percent(share, 0)} of the CPU meanwhile, which may be why: run it again on "
        "an idle machine."
    )
