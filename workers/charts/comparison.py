"""Two to six runs side by side: promises, latencies, operations, plans, places, prices. Each section is a table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workers.charts import latency, provenance
from workers.charts.base import PALETTE, Cell, Figure, Table, layout
from workers.charts.text import MISSING, case_label, dollars, number, quantity
from workers.documents.measurement import Candidate, Distribution
from workers.documents.stages import Results
from workers.documents.workload import Workload, metric_title

MOST_RUNS = 6
VERDICTS = {
    "met": "met",
    "missed": "missed",
    "not_enough_samples": "not enough samples",
    "too_close": "too close to call",
}


@dataclass(frozen=True)
class Side:
    """One of the compared runs. `label` is a letter; `workload` is None where it cannot be read."""

    label: str
    workload: Workload | None
    model_digest: str
    results: Results


@dataclass(frozen=True)
class Section:
    """One table of the comparison, with a note about how to read it."""

    key: str
    title: str
    note: str
    table: Table


def cautions(sides: Sequence[Side]) -> list[str]:
    """Sentences about what makes the runs differ beside their plans."""
    asked = {
        "models": {side.model_digest for side in sides},
        "traffic": {side.workload.traffic.model_dump_json() for side in sides if side.workload},
        "devices": {_environment(side, "Device") for side in sides},
        "driver or library versions": {
            _environment(side, "Driver") + _environment(side, "Libraries") for side in sides
        },
    }
    return [
        f"The runs differ in their {name}: a difference in time is not the plan's alone."
        for name, found in asked.items()
        if len(found) > 1
    ]


def sections(sides: Sequence[Side]) -> list[Section]:
    """Every section that has a row."""
    names = [side.label for side in sides]
    after = "The figures of the plan, each measured in its own run."
    overlap = (
        "Median of the variant that was chosen, with its 95 % interval. A difference is named where the intervals do "
        f"not overlap, against run {names[0]}."
    )
    found = [
        Section("objectives", "Objectives", after, (["objective", *names], _objectives(sides))),
        Section("latency", "Latency", after, (["percentile", *names], _percentiles(sides))),
        Section("ops", "Operations", overlap, (["case", *names], _operations(sides))),
        Section("plan", "Plans", "", (["", *names], _plans(sides))),
        Section("where", "Where it was measured", "", (["", *names], _places(sides))),
        Section("cost", "Cost", "Modelled from throughput and price.", (["", *names], _costs(sides))),
    ]
    return [section for section in found if section.table[1]]


def _objectives(sides: Sequence[Side]) -> list[list[Cell]]:
    cells: dict[str, dict[str, str]] = {}
    for side in sides:
        for each in side.results.verify.outcomes if side.results.verify else []:
            promise = each.objective
            sign = "≥" if promise.direction == "at_least" else "≤"
            text = f"{quantity(each.after, promise.unit)} ({sign} {quantity(promise.limit, promise.unit)})"
            cells.setdefault(promise.label, {})[side.label] = f"{text}, {VERDICTS[each.verdict]}"
    return _rows(sides, cells)


def _rows(sides: Sequence[Side], cells: dict[str, dict[str, str]]) -> list[list[Cell]]:
    return [[name, *(by_run.get(side.label, MISSING) for side in sides)] for name, by_run in cells.items()]


def _first_metric(sides: Sequence[Side]) -> latency.Metric | None:
    """The first metric that every run measured."""
    found = [latency.metrics(side.results) for side in sides]
    return next((metric for metric in found[0] if all(metric in other for other in found)), None)


def _after(side: Side, metric: latency.Metric) -> Distribution:
    assert side.results.verify is not None
    return next(each for each in side.results.verify.after if (each.metric, each.n) == metric)


def figure(sides: Sequence[Side]) -> Figure | None:
    """The distributions of the first metric that every run measured, over each other; None where there is none."""
    metric = _first_metric(sides)
    if metric is None:
        return None
    traces = []
    for side, colour in zip(sides, PALETTE, strict=False):
        found = _after(side, metric)
        ordered, shares = latency.steps(found.samples)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"{side.label} ({len(found.samples):,} samples)",
                "x": [ordered[0], *ordered],
                "y": [0.0, *shares],
                "line": {"color": colour, "width": 2.5, "shape": "hv"},
                "hovertemplate": f"{side.label}: %{{y:.1f}} % within %{{x:.4g}} {found.unit}<extra></extra>",
            }
        )
    unit = _after(sides[0], metric).unit
    form = layout(
        f"{metric_title(*metric)}, {unit}",
        "requests within, %",
        yaxis={"range": [0, 103]},
    )
    return {"data": traces, "layout": form}


def _percentiles(sides: Sequence[Side]) -> list[list[Cell]]:
    metric = _first_metric(sides)
    if metric is None:
        return []
    found = [_after(side, metric) for side in sides]
    names = sorted({name for each in found for name in each.percentiles}, key=lambda name: float(name.strip("p")))
    rows: list[list[Cell]] = [
        [
            f"{metric_title(*metric)} p{name.strip('p')}",
            *(quantity(each.percentiles.get(name), each.unit) for each in found),
        ]
        for name in names
    ]
    rows.append(["samples", *(len(each.samples) for each in found)])
    return rows


def _operations(sides: Sequence[Side]) -> list[list[Cell]]:
    chosen = [_chosen(side) for side in sides]
    rows: list[list[Cell]] = []
    for case in dict.fromkeys(case for found in chosen for case in found):
        reference = chosen[0].get(case)
        rows.append([case, *(_timed(found.get(case), reference) for found in chosen)])
    return rows


def _chosen(side: Side) -> dict[str, Candidate]:
    found = side.results.explore.candidates if side.results.explore else []
    return {case_label(each.op, each.case): each for each in found if each.chosen and each.ms is not None}


def _timed(found: Candidate | None, reference: Candidate | None) -> str:
    if found is None:
        return MISSING
    spread = "" if found.ms_low is None else f" [{number(found.ms_low)}, {number(found.ms_high)}]"
    said = f"{number(found.ms)} ms{spread}, {found.variant}"
    if reference is None or reference is found:
        return said
    return f"{said}: {difference(found, reference)}"


def difference(found: Candidate, reference: Candidate) -> str:
    """`1.24x faster`, `1.10x slower`, or `no difference` where the 95 % intervals overlap or are not known."""
    ends = (found.ms_low, found.ms_high, reference.ms_low, reference.ms_high)
    if None in ends or not found.ms or not reference.ms:
        return "no difference shown"
    low, high, reference_low, reference_high = (float(end or 0) for end in ends)
    if high < reference_low:
        return f"{reference.ms / found.ms:.2f}x faster"
    if low > reference_high:
        return f"{found.ms / reference.ms:.2f}x slower"
    return "no difference"


def _plans(sides: Sequence[Side]) -> list[list[Cell]]:
    cells: dict[str, dict[str, str]] = {}
    for side in sides:
        plan = side.results.verify.plan if side.results.verify else {}
        for name in ("runner", "dtype", "gpu"):
            if plan.get(name):
                cells.setdefault(name, {})[side.label] = str(plan[name])
        for option, value in (plan.get("options") or {}).items():
            cells.setdefault(f"option {option}", {})[side.label] = str(value)
        for part in plan.get("ops") or []:
            cells.setdefault(case_label(part["op"], part["case"]), {})[side.label] = part["variant"]
    return _rows(sides, cells)


def _places(sides: Sequence[Side]) -> list[list[Cell]]:
    cells: dict[str, dict[str, str]] = {}
    for side in sides:
        found = provenance.environment(side.results, "verify")
        for name, value in provenance.facts(found) if found else []:
            cells.setdefault(name, {})[side.label] = value
    return _rows(sides, cells)


def _environment(side: Side, name: str) -> str:
    found = provenance.environment(side.results, "verify")
    return dict(provenance.facts(found)).get(name, "") if found else ""


def _costs(sides: Sequence[Side]) -> list[list[Cell]]:
    cells: dict[str, dict[str, str]] = {}
    for side in sides:
        price = side.results.price
        for line in price.lines if price else []:
            if price and line.label in ("before", "after") and line.usd_per_mtok is not None:
                name = f"a million {price.counted} {line.label}"
                cells.setdefault(name, {})[side.label] = (
                    f"{dollars(line.usd_per_mtok)} at {dollars(line.usd_per_hour)} per hour"
                )
    return _rows(sides, cells)


def labelled(found: Iterable[tuple[Workload | None, str, Results]]) -> list[Side]:
    """Runs, each as workload, model digest and results, as sides A, B, … in their order."""
    return [Side(label, *each) for label, each in zip("ABCDEF", found, strict=False)]
