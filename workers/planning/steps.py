"""What each group of variants brings: the kernels plan with one group, with two and so on, each built and measured."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from kernels import registry, runners
from kernels.hardware import GPUS
from kernels.ops import TORCH_VARIANTS, case_from
from kernels.plan import Plan, PlannedOp
from kernels.tune.plan_search import usable
from workers.documents.stages import PlanTrial
from workers.measuring.journal import Journal
from workers.planning.trials import TrialRunner, TrialTimeouts

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("attention", ("attention", "step_attention", "rope")),
    ("products", ("linear", "grouped")),
    ("norms and gates", ("rmsnorm", "layernorm", "gated")),
)
"""Groups of a kernels plan by their ops, in the order in which they are put in; what is left comes last."""
REST = "head and sampling"
RUNNER = "compact decoder"
"""The first step: the runner itself, where every op is torch's own."""
MIN_SECONDS = 60.0
"""Seconds that compose must have left for the steps to be measured."""
STEP = TrialTimeouts(building=10.0, measuring=1.5)


def cumulative_plans(plan: Plan) -> list[tuple[str, Plan]]:
    """The plan without its variants, then with one more group of them at a time, by what each adds; the last is whole.

    Ops that are left out run as torch's own, in the same runner under the same CUDA graphs. [] where there is but one
    group: its effect is that of the whole plan.
    """
    grouped = {op: name for name, ops in GROUPS for op in ops}
    names = [name for name, _ in GROUPS] + [REST]
    of = [grouped.get(op.op, REST) for op in plan.ops]
    planned = [name for name in names if name in of]
    bare = _bare(plan)
    steps = [(RUNNER, bare)] if bare is not None else []
    for count, name in enumerate(planned, start=1):
        ops = [op for op, group in zip(plan.ops, of, strict=True) if group in planned[:count]]
        steps.append((name, plan.model_copy(update={"ops": ops})))
    return steps if len(steps) > 1 else []


def _bare(plan: Plan) -> Plan | None:
    """The plan with torch's own variant of one of its ops, and so of all; a plan without any op would be tuned."""
    for op in plan.ops:
        case = case_from.validate_python(op.case)
        for name in TORCH_VARIANTS:
            variant = registry.variant(name)
            if variant.op == op.op and variant.serves(case, GPUS[plan.gpu]) is None and usable(case, name):
                return plan.model_copy(update={"ops": [PlannedOp(op=op.op, case=op.case, variant=name)]})
    return None


def measure(trial_runner: TrialRunner, model: Any, plan: Plan, full: PlanTrial, seconds_left: float) -> list[PlanTrial]:
    """Trials of the steps of a plan that passed as `full`, the last step, not measured again; [] without time."""
    steps = cumulative_plans(plan)
    if full.gate != "pass" or seconds_left < MIN_SECONDS or not steps:
        return []
    trials = [
        trial_runner.attempt(name, part, partial(runners.apply, model, part), STEP, lossy=False)
        for name, part in steps[:-1]
    ]
    return [*trials, full.model_copy(update={"label": steps[-1][0], "notes": []})]


def kernels_steps(
    journal: Journal, trial_runner: TrialRunner, model: Any, trials: Sequence[PlanTrial], seconds_left: float
) -> list[PlanTrial]:
    """The steps of the kernels plan among the trials; [] where none passed, or where they ended the stage's process."""
    full = next((trial for trial in trials if trial.plan["runner"] == "kernels" and trial.gate == "pass"), None)
    if full is None or journal.why_left_out("steps"):
        return []
    plan = Plan.model_validate(full.plan)

    def make() -> list[PlanTrial]:
        building = STEP.building * len(cumulative_plans(plan))
        journal.note("steps", f"the plan {full.label} in steps", journal.plan_seconds(building))
        return measure(trial_runner, model, plan, full, seconds_left)

    measured: list[PlanTrial] = journal.once("steps", list[PlanTrial], make)
    return measured
