"""Chooses the variant of each case of a decoder's passes: by their separate times, then in the whole model, where
fusion, overlap and the L2 may change the order. The arrangements with the least sums and the runners-up of each case
are captured and timed.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kernels import registry
from kernels.ops import AttentionCase, Case, GroupedCase, case_from
from kernels.plan import PlannedOp

if TYPE_CHECKING:
    from kernels.model.layer_ops import LayerOps

ARRANGEMENTS = 4
"""Arrangements of a layer that are tried in the whole model."""
BEHIND = 1.3
"""A runner-up slower than the best by more than this factor is not tried in the whole model."""
MISSING_MS = 1e6
"""The time assumed for a case without any option, so that its arrangement is used only if all others lack one too."""
MIN_GAIN = 0.003
"""A change must save this share of a pass's time to be kept."""
SHOWN = ("linear", "attention", "step_attention")
"""Ops that a note names to distinguish one arrangement from another."""


@dataclass(frozen=True)
class Option:
    """One variant for a case, with its time when measured alone."""

    op: PlannedOp
    ms: float


OptionTable = Mapping[str, Sequence[Option]]
"""Options by the key of their case in the model's own precision, the fastest first."""


class PassTimer(Protocol):
    """Times the pass of `queries` tokens with each of the plans, interleaved. Returns ms; inf for a plan left out."""

    def __call__(self, queries: int, plans: Sequence[Sequence[PlannedOp]]) -> list[float]: ...


class PlanWatch:
    """It is told of each plan before that runs in the model. This one lets every plan run, and raises its errors."""

    def runs(self, queries: int, plan: Sequence[PlannedOp]) -> bool:
        """Called before the plan is captured or timed in a pass of `queries` tokens; False leaves it out."""
        return True

    def failed(self, queries: int, plan: Sequence[PlannedOp], error: Exception) -> None:
        """Called with what capturing or first running the plan raised. Where it returns, the plan is left out."""
        raise error


@dataclass
class ChosenOps:
    """The ops of a plan, and a sentence for each alternative that was tried."""

    ops: list[PlannedOp] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def search_plan(
    layer_ops: "LayerOps", options: OptionTable, timer: PassTimer | None, keep_going: Callable[[], bool]
) -> ChosenOps:
    """The best ops for every pass of the model. Without a timer, or if `keep_going` is false, separate times decide."""
    chosen = ChosenOps()
    for queries, _ in layer_ops.traffic.phases:
        _search_pass(layer_ops, queries, options, timer, keep_going, chosen)
    return chosen


def _search_pass(
    layer_ops: "LayerOps",
    queries: int,
    options: OptionTable,
    timer: PassTimer | None,
    keep_going: Callable[[], bool],
    chosen: ChosenOps,
) -> None:
    final = [_best(options, case) for case in layer_ops.final_ops()]
    ranked = sorted(layer_ops.arrangements(queries), key=lambda cases: _sum(options, cases))
    plans = [_merged(final, [_best(options, case) for case in cases]) for cases in ranked[:ARRANGEMENTS]]
    fixed = list(chosen.ops)
    plan = plans[0]
    if timer is not None and keep_going():
        plan, ms = _race(queries, timer, plans, fixed, chosen)
        for planned in plan.copy():
            op = planned
            for alternative in _alternatives(options, planned):
                if not keep_going():
                    break
                swapped = [alternative if planned is op else planned for planned in plan]
                before, after = timer(queries, [[*fixed, *plan], [*fixed, *swapped]])
                if math.inf in (before, after):
                    continue
                better = after < before * (1 - MIN_GAIN)
                chosen.notes.append(_swap_note(queries, op, alternative, before, after, better))
                if better:
                    plan, op, ms = swapped, alternative, after
        if ms < math.inf:
            chosen.notes.append(f"{pass_name(queries)}: {ms:.4g} ms.")
    chosen.ops += [op for op in plan if op not in chosen.ops]


def _race(
    queries: int, timer: PassTimer, plans: list[list[PlannedOp]], fixed: list[PlannedOp], chosen: ChosenOps
) -> tuple[list[PlannedOp], float]:
    times = timer(queries, [[*fixed, *plan] for plan in plans])
    at = min(range(len(times)), key=times.__getitem__)
    for plan, ms in zip(plans, times, strict=True):
        parts = " + ".join(op.case.get("epilogue", op.op) for op in plan if op.op in SHOWN)
        if ms < math.inf:
            chosen.notes.append(f"{pass_name(queries)} of {parts}: {ms:.4g} ms.")
    return plans[at], times[at]


def _alternatives(options: OptionTable, op: PlannedOp) -> list[PlannedOp]:
    """Other params for the model's pass, and other options that are at most BEHIND times slower alone."""
    alternatives = next((choices for choices in options.values() if any(option.op is op for option in choices)), ())
    best = min((option.ms for option in alternatives), default=0.0)
    others = [option.op for option in alternatives if option.op is not op and option.ms <= BEHIND * best]
    case = case_from.validate_python(op.case)
    candidates = [{**op.params, **more} for more in registry.variant(op.variant).for_model(case)]
    return [*(op.model_copy(update={"params": params}) for params in candidates if params != op.params), *others]


def _best(options: OptionTable, case: Case) -> PlannedOp | None:
    candidates = options.get(case.key)
    return candidates[0].op if candidates else None


def _sum(options: OptionTable, cases: Iterable[Case]) -> float:
    """The sum of the cases' separate times."""
    return sum(options[case.key][0].ms if options.get(case.key) else MISSING_MS for case in cases)


def _merged(*groups: Iterable[PlannedOp | None]) -> list[PlannedOp]:
    merged: list[PlannedOp] = []
    for op in (op for group in groups for op in group if op is not None):
        if not any(op is other for other in merged):
            merged.append(op)
    return merged


def pass_name(queries: int) -> str:
    """`a decode step`, or `a prompt of 128 tokens`."""
    return "a decode step" if queries == 1 else f"a prompt of {queries} tokens"


def _swap_note(queries: int, op: PlannedOp, alternative: PlannedOp, before: float, after: float, better: bool) -> str:
    verdict = "taken" if better else "not taken"
    return (
        f"{pass_name(queries)} with {describe_op(alternative)} in place of {describe_op(op)}: {after:.4g} against "
        f"{before:.4g} ms, {verdict}."
    )


def usable(case: Case, variant: str) -> bool:
    """Whether a pass can call the variant: a step's length, and experts' ends, are read on the device."""
    on_device = (isinstance(case, AttentionCase) and case.kind == "decode") or isinstance(case, GroupedCase)
    return registry.variant(variant).device_lengths or not on_device


def planned_op(case: Case, variant: str, params: Mapping[str, Any], evidence_id: str = "") -> PlannedOp:
    """The variant as an op of a plan, with what it may do in a model's pass."""
    more = registry.variant(variant).for_model(case)[0]
    return PlannedOp(
        op=case.op, case=case.model_dump(), variant=variant, params={**params, **more}, evidence_id=evidence_id
    )


def describe_op(op: PlannedOp) -> str:
    """`skinny {'split': 4} for linear 3072×2048`."""
    params = f" {op.params}" if op.params else ""
    return f"{op.variant}{params} for {case_from.validate_python(op.case).shape_label}"
