"""Roofline: what each op reached against what the device was measured to give."""

from workers.charts.base import LIMIT, PALETTE, Chart, Figure, Table, layout, log_axis
from workers.documents.measurement import Rates
from workers.documents.profile import OpRow
from workers.documents.stages import Results
from workers.wording import text

COLOURS = {"memory": PALETTE[0], "compute": PALETTE[1], "launch": PALETTE[2], "idle": PALETTE[6]}
DASHES = ("solid", "dash", "dot", "dashdot")
CEILINGS = (LIMIT, PALETTE[3], PALETTE[4], PALETTE[5])


def _points(results: Results) -> list[tuple[OpRow, float, float]]:
    """(row, FLOP per byte, achieved TFLOP/s) of every op whose FLOPs and bytes are known."""
    rows = results.profile.rows if results.profile else []
    return [
        (row, row.flops / row.least_bytes, row.flops / (row.ms * 1e9))
        for row in rows
        if row.flops and row.least_bytes and row.ms > 0
    ]


def _unit(ceilings: Rates) -> tuple[float, str]:
    """Factor from TFLOP/s and name of the unit in which this device's rates read well."""
    return (1, "TFLOP/s") if max(ceilings.matrix_tflops.values(), default=0) >= 10 else (1000, "GFLOP/s")


def _roof(read_tbps: float, tflops: float, low: float, high: float) -> tuple[list[float], list[float]]:
    ridge = tflops / read_tbps
    xs = sorted({low, min(max(ridge, low), high), high})
    return xs, [min(read_tbps * x, tflops) for x in xs]


def figure(results: Results) -> Figure | None:
    points = _points(results)
    if results.profile is None or not points:
        return None
    ceilings = results.profile.ceilings.of_single_calls
    factor, unit = _unit(ceilings)
    ridges = [tflops / ceilings.read_tbps for tflops in ceilings.matrix_tflops.values() if tflops > 0]
    low = min(0.1, min(x for _, x, _ in points) / 2)
    high = max([3 * ridge for ridge in ridges] + [2 * x for _, x, _ in points])
    traces: list[Figure] = []
    for index, (dtype, tflops) in enumerate(sorted(ceilings.matrix_tflops.items(), key=lambda item: item[1])):
        xs, ys = _roof(ceilings.read_tbps, tflops, low, high)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"ceiling {dtype}",
                "x": xs,
                "y": [factor * y for y in ys],
                "line": {"color": CEILINGS[index % 4], "width": 2, "dash": DASHES[index % 4]},
                "hovertemplate": f"measured ceiling, {dtype}: %{{y:.4g}} {unit}<extra></extra>",
            }
        )
    for bound, colour in COLOURS.items():
        bound_points = [point for point in points if point[0].bound == bound]
        if bound_points:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": f"{bound}-bound",
                    "x": [x for _, x, _ in bound_points],
                    "y": [factor * y for _, _, y in bound_points],
                    "text": [f"{row.op} ({row.phase})" for row, _, _ in bound_points],
                    "customdata": [_time_words(row) for row, _, _ in bound_points],
                    "marker": {
                        "color": colour,
                        "opacity": 0.85,
                        "size": [max(7.0, min(34.0, 60 * row.share**0.5)) for row, _, _ in bound_points],
                        "line": {"width": 1, "color": "rgba(255,255,255,0.7)"},
                    },
                    "hovertemplate": "%{text}<br>%{customdata}<br>"
                    f"%{{x:.3g}} FLOP/byte, %{{y:.3g}} {unit}<extra></extra>",
                }
            )
    form = layout(
        "arithmetic intensity, FLOP per byte",
        unit,
        height=400,
        xaxis=log_axis([low, high]),
        yaxis=log_axis([factor * y for y in [*(y for _, _, y in points), *ceilings.matrix_tflops.values()] if y > 0]),
    )
    return {"data": traces, "layout": form}


def _time_words(row: OpRow) -> str:
    """What a dot is worth: `38.2 ms, 52.1 % of the time; 81.4 % of the ceiling`."""
    share = _share(row)
    ceiling = f"; {text.percent(share)} of the ceiling" if share is not None else ""
    return f"{text.quantity(row.ms, 'ms')}, {text.percent(row.share)} of the time{ceiling}"


def _share(row: OpRow) -> float | None:
    return text.possible(row.floor_ms / row.ms) if row.floor_ms else None


def table(results: Results) -> Table:
    factor, unit = _unit(results.profile.ceilings.of_single_calls) if results.profile else (1, "TFLOP/s")
    headers = ["op", "phase", "FLOP per byte", unit, "floor / time, %", "bound by"]
    return headers, [
        [row.op, row.phase, x, factor * y, 100 * share if (share := _share(row)) else None, row.bound]
        for row, x, y in _points(results)
    ]


CHART = Chart(
    "roofline",
    "Roofline",
    "Each dot is an op, its size the share of the time. The lines are ceilings measured on this device in bursts; "
    "the closer to the line, the less there is to win.",
    "profile",
    "measured",
    figure,
    table,
)
