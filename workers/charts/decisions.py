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


def tried(results: Results) -> list[Candidate]:
    """Candidates that were tried: costliest case first, within a case the chosen one, then the fastest."""
    gated = [each for each in candidates(results) if each.gate != "refused"]
    place = {label: number for number, label in enumerate(_by_cost(gated))}
    return sorted(gated, key=lambda each: (place[_label(each)], not each.chosen, each.ms or float("inf")))


def _label(candidate: Candidate) -> str:
    return case_label(candidate.op, candidate.case)


def _by_cost(found: list[Candidate]) -> list[str]:
    """The cases, ordered by the largest time that one of their candidates takes in a request."""
    weight: dict[str, float] = {}
    for each in found:
        weight[_label(each)] = max(weight.get(_label(each), 0), (each.ms or 0) * each.per_request)
    return sorted(weight, key=lambda label: -weight[label])


@dataclass
class RefusedVariants:
    """Variants of one op that were refused for one reason, and the cases where they were."""

    op: str
    reason: str
    variants: list[str] = field(default_factory=list)
    cases: list[str] = field(default_factory=list)


def refused(results: Results) -> list[RefusedVariants]:
    """The refused candidates by op and reason, in the order of their first case."""
    groups: dict[tuple[str, str], RefusedVariants] = {}
    for each in candidates(results):
        if each.gate == "refused":
            group = groups.setdefault((each.op, each.reason), RefusedVariants(each.op.replace("_", " "), each.reason))
            label = _label(each)
            group.variants += [each.variant] if each.variant not in group.variants else []
            group.cases += [label] if label not in group.cases else []
    return sorted(groups.values(), key=lambda group: group.op)


def _group(candidate: Candidate) -> str:
    if candidate.chosen:
        return "chosen"
    return "passed, slower" if candidate.gate == "pass" else "rejected by the gate"


def figure(results: Results) -> Figure | None:
    timed = [each for each in candidates(results) if each.ms]
    if not timed:
        return None
    cases = _by_cost(timed)[:SHOWN_CASES][::-1]
    traces = []
    for name, colour, symbol, size in GROUPS:
        mine = [each for each in timed if _group(each) == name and _label(each) in cases]
        if mine:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "x": [each.ms for each in mine],
                    "y": [_label(each) for each in mine],
                    "text": [each.variant for each in mine],
                    "marker": {"color": colour, "symbol": symbol, "size": size},
                    "hovertemplate": "%{text}<br>%{y}: %{x:.4g} ms<extra></extra>",
                }
            )
    form = layout(
        "ms per call",
        "",
        height=150 + 34 * len(cases),
        xaxis=log_axis([each.ms for each in timed if each.ms]),
        yaxis={"type": "category", "categoryorder": "array", "categoryarray": cases},
    )
    return {"data": traces, "layout": form}


def _percent(share: float | None) -> float | None:
    found = text.possible(share)
    return None if found is None else 100 * found


def table(results: Results) -> Table:
    headers = ["op", "case", "variant", "ms", "floor / time, %", "error", "error limit", "gate", "chosen", "reason"]
    return headers, [
        [
            each.op,
            _label(each),
            ", ".join([each.variant, *(f"{name} {value}" for name, value in each.params.items())]),
            each.ms,
            _percent(each.floor_share),
            each.error,
            each.error_limit,
            each.gate,
            "yes" if each.chosen else "no",
            each.reason,
        ]
        for each in sorted(candidates(results), key=lambda each: each.gate == "refused")
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
