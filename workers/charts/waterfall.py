"""From kernel to dollar: the time before, what each measured change took off it, the time after and the floor.

Every step is the difference of two plans that were measured with it and without it. Before and after are verify's
medians; plans between are of compose's quick comparison, so what lies between its measurement of the plan and verify's
is the residual.
"""

from dataclasses import dataclass

from workers.charts.base import AFTER, BAD, BEFORE, PALETTE, Cell, Chart, Figure, Table, layout
from workers.charts.plans import with_verification
from workers.documents.stages import PlanTrial, Results
from workers.wording.text import capitalised, dollars, quantity

HOST, LAUNCH, LIBRARY = "host out of the way", "one launch", "library kernels"
WHOLE_REQUEST = ("e2e", "batch_latency")


@dataclass(frozen=True)
class WaterfallBar:
    """One bar: it reaches from `start` to `end` in ms. A change lies between two times; the others begin at 0."""

    name: str
    start: float
    end: float
    kind: str = "change"

    @property
    def saved(self) -> float:
        return self.start - self.end


def steps(results: Results) -> list[WaterfallBar]:
    """Before, the changes, the residual, after and the floor; [] where the plan is none or its metric is no time."""
    verify, compose = results.verify, results.compose
    if verify is None or compose is None or not verify.recommended:
        return []
    first = verify.outcomes[0]
    if first.objective.unit != "ms" or first.before is None or first.after is None or first.objective.percentile != 50:
        return []
    between = _steps_between(results)
    if not between:
        return []
    bars, at = [WaterfallBar(verify.compared_with, 0.0, first.before, "side")], first.before
    for name, ms in between:
        bars.append(WaterfallBar(name, at, ms))
        at = ms
    bars += [WaterfallBar("residual", at, first.after, "residual"), WaterfallBar("after", 0.0, first.after, "side")]
    floor = verify.profile.floor_ms if verify.profile else None
    return [*bars, WaterfallBar("floor", 0.0, floor, "floor")] if floor else bars


def _steps_between(results: Results) -> list[tuple[str, float]]:
    """The plans from today's to the one that was chosen, each by the change that leads to it, in ms."""
    trials = with_verification(results)
    chosen = next((trial for trial in trials if trial.chosen and trial.primary), None)
    if chosen is None or results.compose is None or chosen is trials[0]:
        return []
    by = {trial.label: trial for trial in trials if trial.primary is not None}
    steps: list[tuple[str, PlanTrial]] = []
    runner = chosen.plan.get("runner")
    if runner in ("kernels", "megakernel"):
        graphs = next((trial for label, trial in by.items() if label.startswith("cuda_graphs")), None)
        steps += [(HOST, graphs)] if graphs and trials[0].label == "eager" else []
        kernels = [(step.label, step) for step in results.compose.steps if step.primary is not None]
        steps += kernels or ([(LIBRARY, by["kernels"])] if "kernels" in by else [])
    last, gpus = LAUNCH if runner == "megakernel" else chosen.label, chosen.plan.get("tensor_parallel_size", 1)
    if results.verify and gpus > results.verify.gpus_before:
        steps += [(LAUNCH, by["megakernel"])] if "megakernel" in by else []
        last = f"{gpus} GPUs"
    if not steps or steps[-1][1].plan != chosen.plan:
        steps.append((last, chosen))
    return [(name, trial.primary.value) for name, trial in steps if trial.primary is not None]


def usd_per_thousand(results: Results) -> float | None:
    """USD per thousand requests and ms of the first metric; None where that is no whole request, or has no price, and
    where the plan takes more GPUs than the steps before it.

    A GPU that is busy `ms` with a batch of requests costs usd_per_hour / 3600 · ms / 1000 / batch a request.
    """
    price, verify = results.price, results.verify
    units = price.economics if price else None
    if verify is None or units is None or units.after is None or not units.after.usd_per_hour:
        return None
    if units.after.gpus > verify.gpus_before:
        return None
    objective = verify.outcomes[0].objective
    whole_request = objective.metric in WHOLE_REQUEST or (units.generates and objective.n == units.output_tokens)
    users = units.after.users
    if units.after.highest:
        traffic = results.load.traffic if results.load else None
        users = traffic.batch if traffic else 0
    return units.after.usd_per_hour / 3600 / users if whole_request and users else None


def batching_step(results: Results) -> tuple[str, float] | None:
    """The last step in dollars: the highest load that holds, in words, and USD per thousand requests there."""
    units = results.price.economics if results.price else None
    if units is None or units.after is None or not units.after.highest:
        return None
    usd = next((cost.after for cost in units.costs if cost.key == "thousand-requests"), None)
    return (f"batching, {units.after.users:,} at once", usd.value) if usd else None


def figure(results: Results) -> Figure | None:
    bars = list(reversed(steps(results)))
    if not bars:
        return None
    colours = {"side": BEFORE, "residual": PALETTE[2], "floor": PALETTE[1]}
    named, usd = [capitalised(bar.name) for bar in bars], usd_per_thousand(results)
    trace = {
        "type": "bar",
        "orientation": "h",
        "name": "ms",
        "y": named,
        "base": [min(bar.start, bar.end) for bar in bars],
        "x": [abs(bar.saved) for bar in bars],
        "text": [_words(bar, usd) for bar in bars],
        "textposition": "auto",
        "textangle": 0,
        "marker": {"color": [_colour(bar, colours) for bar in bars]},
        "hovertemplate": "%{y}: %{text}<extra></extra>",
    }
    form = layout("ms", "", height=130 + 34 * len(bars), showlegend=False, xaxis={"rangemode": "tozero"})
    return {"data": [trace], "layout": form}


def _colour(step: WaterfallBar, colours: dict[str, str]) -> str:
    if step.name == "after":
        return AFTER
    return colours.get(step.kind) or (AFTER if step.saved >= 0 else BAD)


MIN_USD = 1e-4
"""Less is not written beside a bar."""


def _words(step: WaterfallBar, usd: float | None) -> str:
    """The bar in ms and, where a ms costs `usd`, in dollars."""
    whole = step.kind in ("side", "floor")
    sign, ms = "" if whole else "−" if step.saved >= 0 else "+", step.end if whole else abs(step.saved)
    money = f", {sign}{dollars(ms * usd)}" if usd and ms * usd >= MIN_USD else ""
    return f"{sign}{quantity(ms, 'ms')}{money}"


def table(results: Results) -> Table:
    usd = usd_per_thousand(results)
    rows: list[list[Cell]] = []
    for bar in steps(results):
        side = bar.kind in ("side", "floor")
        change, reached = None if side else -bar.saved, bar.end
        money = [None if change is None else change * usd, reached * usd] if usd else []
        rows.append([bar.name, change, reached, *money])
    after = next((bar for bar in steps(results) if bar.name == "after"), None)
    last = batching_step(results)
    if usd and last and after:
        rows.append([last[0], None, None, last[1] - after.end * usd, last[1]])
    heads = ["USD per thousand requests, change", "USD per thousand requests"] if usd else []
    return ["step", "change, ms", "ms", *heads], rows


CHART = Chart(
    "waterfall",
    "From kernel to dollar",
    "Each step is the difference of two plans, measured with it and without it. Changes not tested separately share a "
    "bar. The residual is what the plan took more or less when it was verified. Dollars are for a thousand requests.",
    "verify",
    "measured",
    figure,
    table,
)
