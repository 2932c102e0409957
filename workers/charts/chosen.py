"""The operations of the plan that was chosen: what runs each, and torch's best at the same shape and precision."""

from dataclasses import dataclass

from workers.charts.base import AFTER, BEFORE, Chart, Figure, Table, layout
from workers.documents.measurement import Candidate
from workers.documents.stages import Results
from workers.wording.plan_profile import MEGAKERNEL
from workers.wording.text import case_label

SHOWN, LEAST_SHARE = 12, 0.01
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
    evidence = {each.id: each for each in candidates}
    steps_too = plan.get("runner") != MEGAKERNEL
    found = [_part(op, evidence.get(op.get("evidence_id") or ""), candidates, steps_too) for op in plan.get("ops", [])]
    return sorted(found, key=lambda part: -part.ms_per_request)


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
        each.ms for each in candidates if each.peer and each.gate == "pass" and each.ms and each.case == timed.case
    ]
    calls = timed.per_request if steps_too or op["op"] != "lm_head" else 1.0
    return PlanOperation(label, variant, timed.summary, calls, timed.ms, min(theirs, default=None))


def figure(results: Results) -> Figure | None:
    timed = [each for each in parts(results) if each.ms]
    least = LEAST_SHARE * sum(each.ms_per_request for each in timed)
    shown = [each for each in timed if each.ms_per_request >= least][:SHOWN][::-1]
    if not shown:
        return None
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": [f"{each.variant}: {each.case}" for each in shown],
            "x": [(ms(each) or 0.0) * (each.calls or 0.0) for each in shown],
            "marker": {"color": colour},
            "hovertemplate": "%{y}: %{x:.4g} ms<extra></extra>",
        }
        for name, colour, ms in (
            ("torch's best", BEFORE, lambda each: each.torch_ms),
            ("in the plan", AFTER, lambda each: each.ms),
        )
    ]
    form = layout("ms per request", "", height=130 + 38 * len(shown), barmode="group", xaxis={"rangemode": "tozero"})
    return {"data": traces, "layout": form}


def table(results: Results) -> Table:
    headers = ["operation", "runs on", "what it is", "calls", "µs a call", "torch's best, µs", "times faster"]
    return headers, [
        [
            each.case,
            each.variant,
            each.summary,
            None if each.calls is None else round(each.calls),
            None if each.ms is None else 1000 * each.ms,
            None if each.torch_ms is None else 1000 * each.torch_ms,
            each.torch_ms / each.ms if each.torch_ms and each.ms else None,
        ]
        for each in parts(results)
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
