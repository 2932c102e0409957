"""Where the time of one request goes: op by op, by phase, beside the roofline floor of each."""

from collections import defaultdict

from workers.charts.base import PALETTE, Chart, Figure, Table, layout
from workers.documents.measurement import Distribution
from workers.documents.profile import OpRow
from workers.documents.stages import Results
from workers.documents.workload import Workload
from workers.wording.text import number

SHOWN = 12
IDLE, IDLE_PHASE = "waiting for the host", "idle"
"""The labels of the row without an operation or a phase."""
COLOURS = {"prefill": PALETTE[1], "decode": PALETTE[0], "forward": PALETTE[0], IDLE_PHASE: PALETTE[6]}
"""Each phase has one colour in every run, whichever takes longest."""
UNLIKE = 0.25
"""A profiled request further than this share from verify's median was measured under other conditions."""


def unlike_before(results: Results, workload: Workload | None) -> str:
    """A sentence where the profile's request took another time than verify's before; of the eager runner alone."""
    verify, profile = results.verify, results.profile
    if verify is None or profile is None or workload is None or workload.baseline_plan_runner != "eager":
        return ""
    return _unlike(profile.request_ms, verify.before, workload)


def unlike_after(results: Results, workload: Workload | None) -> str:
    """The same of the profile of the plan and verify's after."""
    verify = results.verify
    if verify is None or verify.profile is None or workload is None or not verify.recommended:
        return ""
    return _unlike(verify.profile.request_ms, verify.after, workload)


def _unlike(request_ms: float, served: list[Distribution], workload: Workload) -> str:
    requests = [dist for dist in served if dist.metric in ("e2e", "batch_latency") and dist.samples]
    if not requests or workload.traffic.concurrency > 1:  # several users wait for each other, the profile's request not
        return ""
    verified = requests[0].percentiles["p50"]
    if abs(request_ms - verified) <= UNLIKE * verified:
        return ""
    return (
        f"Such a request took {number(request_ms)} ms when it was profiled, but its median in verify is "
        f"{number(verified)} ms: conditions were not the same, so times of this profile are not to be compared with "
        "verify's."
    )


def _rows(results: Results) -> list[OpRow]:
    """The rows, costliest first. The time between kernels gets a name of its own."""
    rows = results.profile.rows if results.profile else []
    shown = [row.model_copy(update={"op": IDLE, "phase": IDLE_PHASE}) if row.bound == "idle" else row for row in rows]
    return sorted(shown, key=lambda row: -row.ms)


def _largest_ops(rows: list[OpRow]) -> list[str]:
    total: dict[str, float] = defaultdict(float)
    for row in rows:
        total[row.op] += row.ms
    ranked = sorted(total, key=lambda op: -total[op])
    return ranked[:SHOWN] if len(ranked) <= SHOWN + 1 else [*ranked[:SHOWN], "everything else"]


def figure(results: Results) -> Figure | None:
    rows = _rows(results)
    if not rows:
        return None
    ops = _largest_ops(rows)
    spent: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    floors: dict[str, float] = defaultdict(float)
    for row in rows:
        op = row.op if row.op in ops else ops[-1]
        spent[row.phase][op] += row.ms
        floors[op] += row.floor_ms or 0
    ops = ops[::-1]
    traces: list[Figure] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": phase,
            "y": ops,
            "x": [by_op.get(op, 0) for op in ops],
            "marker": {"color": COLOURS.get(phase, PALETTE[2])},
            "hovertemplate": f"%{{y}}, {phase}: %{{x:.4g}} ms<extra></extra>",
        }
        for phase, by_op in sorted(spent.items(), key=lambda item: -sum(item[1].values()))
    ]
    with_floor = [op for op in ops if floors[op] > 0]
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "roofline floor",
            "y": with_floor,
            "x": [floors[op] for op in with_floor],
            "marker": {"symbol": "line-ns-open", "size": 18, "color": "#cf4a3a", "line": {"width": 2.5}},
            "hovertemplate": "%{y}: floor %{x:.4g} ms<extra></extra>",
        }
    )
    form = layout(
        "ms per request",
        "",
        barmode="stack",
        height=130 + 30 * len(ops),
        xaxis={"rangemode": "nonnegative"},
        yaxis={"type": "category"},
    )
    return {"data": traces, "layout": form}


def table(results: Results) -> Table:
    headers = ["op", "phase", "kernel", "ms", "share, %", "calls", "floor ms", "headroom ms", "bound by"]
    return headers, [
        [row.op, row.phase, row.kernel, row.ms, 100 * row.share, row.calls, row.floor_ms, row.headroom_ms, row.bound]
        for row in _rows(results)
    ]


CHART = Chart(
    "time",
    "Where the time goes",
    "Time per op over one request, by phase. The red tick is the roofline floor: what lies right of it is headroom.",
    "profile",
    "measured",
    figure,
    table,
)
