"""Two to six runs side by side: promises, latencies, operations, plans, places, prices. Each section is a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workers.charts import latency, under_load
from workers.charts.base import PALETTE, Cell, Figure, Table, layout
from workers.documents.load import LoadResult
from workers.documents.measurement import Candidate, Distribution, Interval, MetricKey, find_metric
from workers.documents.prices import PriceResult
from workers.documents.stages import Results
from workers.documents.workload import Workload, metric_title
from workers.wording import provenance
from workers.wording.text import (
    MISSING,
    VERDICTS,
    capitalised,
    case_label,
    dollars,
    number,
    objective_limit,
    quantity,
    traffic_words,
)

MAX_RUNS = 6
AFTER = "The figures of the plan, each measured in its own run."
LOADS = "The highest load at which every promise of the run holds, and the load that gave the most, whatever they say."


@dataclass(frozen=True)
class ComparedRun:
    """One of the compared runs. `label` is a letter; `workload` is None where it cannot be read.

    `differences` are of its medians from those of the first run, as shares, with their 95 % intervals.
    """

    label: str
    workload: Workload | None
    model_digest: str
    results: Results
    differences: Mapping[MetricKey, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class ComparisonSection:
    """One table of the comparison, with a note about how to read it, and perhaps a figure."""

    key: str
    title: str
    note: str
    table: Table
    figure: Figure | None = None


def cautions(sides: Sequence[ComparedRun]) -> list[str]:
    """Sentences about what makes the runs differ beside their plans."""
    values = {
        "models": {side.model_digest for side in sides},
        f"traffic ({_traffic_words(sides)})": {
            side.workload.traffic.model_dump_json() for side in sides if side.workload
        },
        "devices": {_environment(side, "Device") for side in sides},
        "driver or library versions": {
            _environment(side, "Driver") + _environment(side, "Libraries") for side in sides
        },
    }
    differing = ", ".join(name for name, each in values.items() if len(each) > 1)
    unlike = (
        [f"The runs differ in their {differing}: a difference in time is not the plan's alone."] if differing else []
    )
    return unlike + [f"Run {side.label}: {why_busy}" for side in sides if (why_busy := provenance.busy(side.results))]


def sections(sides: Sequence[ComparedRun]) -> list[ComparisonSection]:
    names = [side.label for side in sides]
    overlap = (
        "Median of the variant that was chosen, with its 95 % interval. A difference is named where the intervals do "
        f"not overlap, against run {names[0]}."
    )
    sections = [
        ComparisonSection("workloads", "What was asked", "", (["", *names], _workloads(sides))),
        ComparisonSection("objectives", "Objectives", AFTER, (["Objective", *names], _objectives(sides))),
        *(_distribution(sides, metric, unit) for metric, unit in _metrics(sides)),
        ComparisonSection("ops", "Operations", overlap, (["Operation", *names], _operations(sides))),
        ComparisonSection("plan", "Plans", "", (["", *names], _plans(sides))),
        ComparisonSection("where", "Where it was measured", "", (["", *names], _places(sides))),
        ComparisonSection("load", "Under load", LOADS, (["", *names], _under_load(sides))),
        ComparisonSection("cost", "Cost", _cost_note(sides), (["", *names], _costs(sides))),
    ]
    return [section for section in sections if section.table[1]]


def _workloads(sides: Sequence[ComparedRun]) -> list[list[Cell]]:
    """What each workload asks for, and in which parts their traffic differs."""
    cells: dict[str, dict[str, str]] = {}
    for side in sides:
        if side.workload is None:
            continue
        limits, search = side.workload.constraints, side.workload.load
        in_vllm = ", after in vLLM" if side.workload.after_runner == "vllm" else ""
        parts = {
            "Promises": ", ".join(
                f"{objective.label} {objective_limit(objective)}" for objective in side.workload.objectives
            ),
            "Runs today": side.workload.baseline_runner,
            "Under load": f"up to {search.most_users:,} users{in_vllm}" if search else "not asked",
            "Precisions": ", ".join(limits.precisions),
            "GPU classes": ", ".join(limits.gpu_classes),
            "Plan to prefer": limits.prefer,
            "Minutes": f"{limits.minutes:g}",
        }
        for name, value in parts.items():
            cells.setdefault(name, {})[side.label] = value
    for name in _unlike_traffic(sides):
        values = {side.label: _part(side, name) for side in sides if side.workload}
        cells[capitalised(name)] = values
    return _rows(sides, cells)


def _unlike_traffic(sides: Sequence[ComparedRun]) -> list[str]:
    """The parts of the traffic, in words, that are not the same in all runs."""
    parts = [side.workload.traffic.model_dump() for side in sides if side.workload]
    return [
        name.replace("_", " ") for name in (parts[0] if parts else {}) if len({str(part[name]) for part in parts}) > 1
    ]


def _traffic_words(sides: Sequence[ComparedRun]) -> str:
    """How the traffic differs: `prompt tokens A 128, B 256; batch A 1, B 8`."""
    parts = _unlike_traffic(sides)
    return "; ".join(f"{name} {', '.join(f'{side.label} {_part(side, name)}' for side in sides)}" for name in parts)


def _part(side: ComparedRun, name: str) -> str:
    value = side.workload.traffic.model_dump(exclude_none=True).get(name.replace(" ", "_")) if side.workload else None
    if isinstance(value, dict):
        return ", ".join(f"{key.replace('_', ' ')} {part}" for key, part in value.items())
    return MISSING if value is None or value == "" else str(value)


def _objectives(sides: Sequence[ComparedRun]) -> list[list[Cell]]:
    cells: dict[str, dict[str, str]] = {}
    for side in sides:
        for outcome in side.results.verify.outcomes if side.results.verify else []:
            objective = outcome.objective
            text = f"{quantity(outcome.after, objective.unit)} ({objective_limit(objective)})"
            cells.setdefault(objective.label, {})[side.label] = f"{text}, {VERDICTS[outcome.verdict]}"
    reference = next((side for side in sides if _gain(side)), None)
    for side in sides:
        if gain := _gain(side):
            spread = f"{number(gain.value)}x ({number(gain.low)} to {number(gain.high)})"
            apart = (
                ""
                if side is reference or reference is None
                else f": {_apart(gain, _gain(reference))} {reference.label}"
            )
            cells.setdefault("Speedup over its own before", {})[side.label] = spread + apart
    return _rows(sides, cells)


def _gain(side: ComparedRun) -> Interval | None:
    """The speedup of the plan over what ran beside it, with its 95 % interval."""
    verified = side.results.verify
    return verified.speedup.ratio if verified and verified.speedup else None


def _apart(gain: Interval, reference: Interval | None) -> str:
    if reference is None or (gain.low <= reference.high and gain.high >= reference.low):
        return "no difference from"
    return "more than" if gain.low > reference.high else "less than"


def _rows(sides: Sequence[ComparedRun], cells: dict[str, dict[str, str]]) -> list[list[Cell]]:
    return [[name, *(by_run.get(side.label, MISSING) for side in sides)] for name, by_run in cells.items()]


def _metrics(sides: Sequence[ComparedRun]) -> list[tuple[MetricKey, str]]:
    """The metrics with their units that at least two runs measured, in the first one's order."""
    by_side = [
        [(metric, outcome.unit) for metric in latency.metrics(side.results) if (outcome := _after(side, metric))]
        for side in sides
    ]
    keys = dict.fromkeys(key for measured in by_side for key in measured)
    return [key for key in keys if sum(key in measured for measured in by_side) > 1]


def _after(side: ComparedRun, metric: MetricKey, unit: str = "") -> Distribution | None:
    """What a run measured of the plan, in this unit if one is named."""
    measured = side.results.verify.after if side.results.verify else []
    return find_metric((item for item in measured if item.samples and unit in ("", item.unit)), metric)


def _distribution(sides: Sequence[ComparedRun], metric: MetricKey, unit: str) -> ComparisonSection:
    """The dists of a metric over each other, and their percentiles; a dash for a run that has none."""
    name = metric_title(*metric)
    dists = [(side, _after(side, metric, unit)) for side in sides]
    measured = [dist for _, dist in dists if dist is not None]
    form = layout(f"{name}, {unit}", "requests within, %", xaxis={"rangemode": "tozero"}, yaxis={"range": [0, 103]})
    traces = [
        _trace(side, dist, colour) for (side, dist), colour in zip(dists, PALETTE, strict=False) if dist is not None
    ]
    names = sorted({name for dist in measured for name in dist.percentiles}, key=lambda name: float(name.strip("p")))
    rows: list[list[Cell]] = [
        [f"{capitalised(name)} {percentile}", *(_percentile(dist, percentile) for _, dist in dists)]
        for percentile in names
    ]
    differences = [side.differences.get(metric) if dist else None for side, dist in dists]
    if any(differences):
        rows.append([f"Median, difference from {sides[0].label}, 95 %", *map(_difference_words, differences)])
    rows.append(["Samples", *(MISSING if dist is None else len(dist.samples) for _, dist in dists)])
    key = f"latency-{metric[0]}-{metric[1] or 0}-{unit.partition('/')[0]}"
    best = _best(differences, highest=unit.endswith("/s"))
    names = [f"{side.label}, best" if at in best else side.label for at, side in enumerate(sides)]
    table: Table = (["Percentile", *names], rows)
    title = capitalised(name) if unit == "ms" else f"{capitalised(name)}, {unit}"
    return ComparisonSection(key, title, AFTER, table, {"data": traces, "layout": form})


def _difference_words(share: Interval | None) -> str:
    if share is None:
        return MISSING
    if share.low == share.high:
        return "0 %"
    return f"{100 * share.value:+,.1f} % ({100 * share.low:+,.1f} % to {100 * share.high:+,.1f} %)"


def _best(differences: Sequence[Interval | None], highest: bool) -> list[int]:
    """Where the best medians stand: those whose intervals overlap that of the best value. None where all do."""
    known = {at: share for at, share in enumerate(differences) if share is not None}
    if not known:
        return []
    top = (max if highest else min)(known.values(), key=lambda share: share.value)
    best = [at for at, share in known.items() if share.low <= top.high and share.high >= top.low]
    return best if len(best) < len(known) else []


def _percentile(distribution: Distribution | None, name: str) -> str:
    return MISSING if distribution is None else quantity(distribution.percentiles.get(name), distribution.unit)


def _trace(side: ComparedRun, distribution: Distribution, colour: str) -> dict[str, Any]:
    ordered, shares = latency.steps(distribution.samples)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{side.label} ({len(distribution.samples):,} samples)",
        "x": [ordered[0], *ordered],
        "y": [0.0, *shares],
        "line": {"color": colour, "width": 2.5, "shape": "hv"},
        "hovertemplate": f"{side.label}: %{{y:.1f}} % within %{{x:.4g}} {distribution.unit}<extra></extra>",
    }


def _operations(sides: Sequence[ComparedRun]) -> list[list[Cell]]:
    chosen = [_chosen(side) for side in sides]
    rows: list[list[Cell]] = []
    for case in dict.fromkeys(case for candidates in chosen for case in candidates):
        reference = chosen[0].get(case)
        rows.append([case, *(_timed(by_op.get(case), reference) for by_op in chosen)])
    return rows


def _chosen(side: ComparedRun) -> dict[str, Candidate]:
    candidates = side.results.explore.candidates if side.results.explore else []
    chosen = (candidate for candidate in candidates if candidate.chosen and candidate.ms is not None)
    return {case_label(candidate.op, candidate.case): candidate for candidate in chosen}


def _timed(candidate: Candidate | None, reference: Candidate | None) -> str:
    if candidate is None:
        return MISSING
    spread = "" if candidate.ms_low is None else f" ({number(candidate.ms_low)} to {number(candidate.ms_high)})"
    words = f"{number(candidate.ms)} ms{spread}, {candidate.variant}"
    if reference is None or reference is candidate:
        return words
    return f"{words}: {difference(candidate, reference)}"


def difference(candidate: Candidate, reference: Candidate) -> str:
    """`1.24x faster`, `1.10x slower`, or `no difference` where the 95 % intervals overlap or are not known."""
    ends = (candidate.ms_low, candidate.ms_high, reference.ms_low, reference.ms_high)
    if None in ends or not candidate.ms or not reference.ms:
        return "no difference shown"
    low, high, reference_low, reference_high = (float(end or 0) for end in ends)
    if high < reference_low:
        return f"{reference.ms / candidate.ms:.2f}x faster"
    if low > reference_high:
        return f"{candidate.ms / reference.ms:.2f}x slower"
    return "no difference"


def _plans(sides: Sequence[ComparedRun]) -> list[list[Cell]]:
    cells: dict[str, dict[str, str]] = {}
    for side in sides:
        plan = side.results.verify.plan if side.results.verify else {}
        for name, title in (("runner", "Runner"), ("dtype", "Data type"), ("gpu", "GPU")):
            if plan.get(name):
                cells.setdefault(title, {})[side.label] = str(plan[name])
        for option, value in (plan.get("options") or {}).items():
            cells.setdefault(f"Option {option}", {})[side.label] = str(value)
        for part in plan.get("ops") or []:
            cells.setdefault(case_label(part["op"], part["case"]), {})[side.label] = part["variant"]
    return _rows(sides, cells)


def _places(sides: Sequence[ComparedRun]) -> list[list[Cell]]:
    cells: dict[str, dict[str, str]] = {}
    for side in sides:
        env = provenance.environment(side.results, "verify")
        for name, value in provenance.facts(env) if env else []:
            cells.setdefault(name, {})[side.label] = value
    return _rows(sides, cells)


def _environment(side: ComparedRun, name: str) -> str:
    env = provenance.environment(side.results, "verify")
    return dict(provenance.facts(env)).get(name, "") if env else ""


def _costs(sides: Sequence[ComparedRun]) -> list[list[Cell]]:
    cells: dict[str, dict[str, str]] = {}
    for side in sides:
        price = side.results.price
        for line in price.lines if price else []:
            if price and line.label in ("before", "after") and line.usd_per_mtok is not None:
                name = f"A million {price.counted}, {line.label}"
                hour = f"{dollars(line.usd_per_mtok)} at {dollars(line.usd_per_hour)} per hour"
                load = _priced_load(price, line.label)
                cells.setdefault(name, {})[side.label] = f"{hour}, {load}" if load else hour
    return _rows(sides, cells)


def _priced_load(price: PriceResult, label: str) -> str:
    """The load that a side's price stands at; "" in documents that do not say."""
    side = getattr(price.economics, label) if price.economics else None
    return side.load if side else price.load


def _cost_note(sides: Sequence[ComparedRun]) -> str:
    """How to read the prices: those at unlike loads are no comparison of plans."""
    loads = {_priced_load(side.results.price, "after") for side in sides if side.results.price}
    unlike = "These prices stand at unlike loads: a GPU that serves more at once gives each token for less. "
    return unlike * (len(loads) > 1) + "Modelled from throughput and price."


def _load_words(load: LoadResult) -> str:
    return f"{traffic_words(load.traffic)}, {quantity(load.tokens_per_second, 'tokens/s')}"


def _under_load(sides: Sequence[ComparedRun]) -> list[list[Cell]]:
    """The highest load that holds on each side of each run, and what it gave there."""
    cells: dict[str, dict[str, str]] = {}
    for side in sides:
        for name, _, curve in under_load.sides(side.results):
            highest = curve.limit.held
            words = _load_words(highest) if highest else "none is shown to hold"
            cells.setdefault(f"{name}, every promise holds", {})[side.label] = f"{words} ({curve.server.label})"
            most = max(curve.limit.loads, key=lambda load: load.tokens_per_second)
            cells.setdefault(f"{name}, most tokens per second", {})[side.label] = _load_words(most)
    return _rows(sides, cells)


def labelled(runs: Iterable[tuple[Workload | None, str, Results]]) -> list[ComparedRun]:
    """Runs, each as workload, model digest and results, as sides A to F in their order."""
    return [ComparedRun(label, *run) for label, run in zip("ABCDEF", runs, strict=False)]
