"""The operations of the plan that was chosen: what runs each, and torch's best at the same shape and precision."""

from dataclasses import dataclass

from workers.charts.base import AFTER, BEFORE, Chart, Figure, Table, layout
from workers.documents.measurement import Candidate
from workers.documents.stages import Results
from workers.wording.plan_profile import MEGAKERNEL
from workers.wording.text import case_label

SHOWN, MIN_SHARE = 12, 0.01
"""The figure shows at most this many operations, each at least this share of the whole."""


@dataclass(frozen=True)
class PlanOperation:
    """One operation of the plan. Times are of one call, ms; None where it was not timed."""

    case: str
    variant: str
    summary: str
    calls: float | None
    ms: float | None
    torch_ms: float | None

    @property
    def ms_per_request(self) -> float:
        return (self.ms or 0.0) * (self.calls or 0.0)


def parts(results: Results) -> list[PlanOperation]:
    """The plan's operations, those that cost most of a request first."""
    plan = results.verify.plan if results.verify else results.compose.plan if results.compose else {}
    candidates = results.explore.candidates if results.explore else []
    evidence = {candidate.id: candidate for candidate in candidates}
    steps_too = plan.get("runner") != MEGAKERNEL
    operations = [
        _part(op, evidence.get(op.get("evidence_id") or ""), candidates, steps_too) for op in plan.get("ops", [])
    ]
    return sorted(operations, key=lambda part: -part.ms_per_request)


def _part(
    op: dict[str, object], timed: Candidate | None, candidates: list[Candidate], steps_too: bool
) -> PlanOperation:
    """`steps_too`: the plan's operations run in decode steps as well. Those of a megakernel's plan run in the prompt
    alone, so its head runs once; explore counted a call for each token.
    """
    label, variant = case_label(str(op["op"]), op["case"]), str(op["variant"])  # type: ignore[arg-type]
    if timed is None:
        return PlanOperation(label, variant, "", None, None, None)
    theirs = [
        peer.ms for peer in candidates if peer.peer and peer.gate == "pass" and peer.ms and peer.case == timed.case
    ]
    calls = timed.per_request if steps_too or op["op"] != "lm_head" else 1.0
    return PlanOperation(label, variant, timed.summary, calls, timed.ms, min(theirs, default=None))


def figure(results: Results) -> Figure | None:
    timed = [operation for operation in parts(results) if operation.ms]
    least = MIN_SHARE * sum(operation.ms_per_request for operation in timed)
    shown = [operation for operation in timed if operation.ms_per_request >= least][:SHOWN][::-1]
    if not shown:
        return None
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": [f"{operation.variant}: {operation.case}" for operation in shown],
            "x": [(ms(operation) or 0.0) * (operation.calls or 0.0) for operation in shown],
            "marker": {"color": colour},
            "hovertemplate": "%{y}: %{x:.4g} ms<extra></extra>",
        }
        for name, colour, ms in (
            ("torch's best", BEFORE, lambda operation: operation.torch_ms),
            ("in the plan", AFTER, lambda operation: operation.ms),
        )
    ]
    form = layout("ms per request", "", height=130 + 38 * len(shown), barmode="group", xaxis={"rangemode": "tozero"})
    return {"data": traces, "layout": form}


def table(results: Results) -> Table:
    headers = ["operation", "runs on", "what it is", "calls", "µs a call", "torch's best, µs", "times faster"]
    return headers, [
        [
            operation.case,
            operation.variant,
            operation.summary,
            None if operation.calls is None else round(operation.calls),
            None if operation.ms is None else 1000 * operation.ms,
            None if operation.torch_ms is None else 1000 * operation.torch_ms,
            operation.torch_ms / operation.ms if operation.torch_ms and operation.ms else None,
        ]
        for operation in parts(results)
    ]


CHART = Chart(
    "chosen",
    "The plan, operation by operation",
    "Each operation of at least 1 %, timed by itself with a cold cache, times its calls; in the plan they overlap. A "
    "megakernel makes every token after the first by itself: beside it the plan has the prompt's operations alone.",
    "explore",
    "measured",
    figure,
    table,
)
