"""Every candidate that was timed, case by case, and which was chosen; the refused ones together, reason by reason."""

from dataclasses import dataclass, field

from workers.charts.base import AFTER, BAD, BEFORE, Chart, Figure, Table, layout, log_axis
from workers.documents.measurement import Candidate
from workers.documents.stages import Results
from workers.wording import text
from workers.wording.text import case_label

SHOWN_CASES = 16
GROUPS = (
    ("chosen", AFTER, "diamond", 13),
    ("passed, slower", BEFORE, "circle", 9),
    ("rejected by the gate", BAD, "x", 9),
)


def candidates(results: Results) -> list[Candidate]:
    return results.explore.candidates if results.explore else []


def tried_candidates(results: Results) -> list[Candidate]:
    """Candidates that were tried: costliest case first, within a case the chosen one, then the fastest."""
    gated = [candidate for candidate in candidates(results) if candidate.gate != "refused"]
    place = {label: number for number, label in enumerate(_by_cost(gated))}
    return sorted(
        gated, key=lambda candidate: (place[_label(candidate)], not candidate.chosen, candidate.ms or float("inf"))
    )


def _label(candidate: Candidate) -> str:
    return case_label(candidate.op, candidate.case)


def _by_cost(passed: list[Candidate]) -> list[str]:
    """The cases, ordered by the largest time that one of their candidates takes in a request."""
    weight: dict[str, float] = {}
    for candidate in passed:
        weight[_label(candidate)] = max(weight.get(_label(candidate), 0), (candidate.ms or 0) * candidate.per_request)
    return sorted(weight, key=lambda label: -weight[label])


@dataclass
class RefusedVariants:
    op: str
    reason: str
    variants: list[str] = field(default_factory=list)
    cases: list[str] = field(default_factory=list)


def refused_candidates(results: Results) -> list[RefusedVariants]:
    """The refused candidates by op and reason, in the order of their first case."""
    groups: dict[tuple[str, str], RefusedVariants] = {}
    for candidate in candidates(results):
        if candidate.gate == "refused":
            op, reason = candidate.op, candidate.reason
            group = groups.setdefault((op, reason), RefusedVariants(op.replace("_", " "), reason))
            label = _label(candidate)
            group.variants += [candidate.variant] if candidate.variant not in group.variants else []
            group.cases += [label] if label not in group.cases else []
    return sorted(groups.values(), key=lambda group: group.op)


def _group(candidate: Candidate) -> str:
    if candidate.chosen:
        return "chosen"
    return "passed, slower" if candidate.gate == "pass" else "rejected by the gate"


def figure(results: Results) -> Figure | None:
    timed = [candidate for candidate in candidates(results) if candidate.ms]
    if not timed:
        return None
    cases = _by_cost(timed)[:SHOWN_CASES][::-1]
    traces = []
    for name, colour, symbol, size in GROUPS:
        members = [candidate for candidate in timed if _group(candidate) == name and _label(candidate) in cases]
        if members:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "x": [candidate.ms for candidate in members],
                    "y": [_label(candidate) for candidate in members],
                    "text": [candidate.variant for candidate in members],
                    "marker": {"color": colour, "symbol": symbol, "size": size},
                    "hovertemplate": "%{text}<br>%{y}: %{x:.4g} ms<extra></extra>",
                }
            )
    form = layout(
        "ms per call",
        "",
        height=150 + 34 * len(cases),
        xaxis=log_axis([candidate.ms for candidate in timed if candidate.ms]),
        yaxis={"type": "category", "categoryorder": "array", "categoryarray": cases},
    )
    return {"data": traces, "layout": form}


def _percent_value(share: float | None) -> float | None:
    possible = text.possible(share)
    return None if possible is None else 100 * possible


def table(results: Results) -> Table:
    headers = ["op", "case", "variant", "ms", "floor / time, %", "error", "error limit", "gate", "chosen", "reason"]
    return headers, [
        [
            candidate.op,
            _label(candidate),
            ", ".join([candidate.variant, *(f"{name} {value}" for name, value in candidate.params.items())]),
            candidate.ms,
            _percent_value(candidate.floor_share),
            candidate.error,
            candidate.error_limit,
            candidate.gate,
            "yes" if candidate.chosen else "no",
            candidate.reason,
        ]
        for candidate in sorted(candidates(results), key=lambda candidate: candidate.gate == "refused")
    ]


CHART = Chart(
    "decisions",
    "Candidates, case by case",
    "Each mark is a variant timed at a shape that this model really uses; the cases that cost most come first.",
    "explore",
    "measured",
    figure,
    table,
)
