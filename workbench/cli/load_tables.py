"""A load test as tables for a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from workbench.cli.tables import figure, verdict_markup
from workers.charts.under_load import kernels_by_load
from workers.documents.base import Verdict
from workers.documents.load import LimitResult, LoadResult, UnderLoadResult
from workers.documents.measurement import Interval
from workers.documents.workload import metric_title
from workers.wording.load_search import limit_sentence
from workers.wording.text import capitalised, objective_limit, plain


def load_result(result: LoadResult, console: Console) -> None:
    """Percentiles with their intervals, rates, the generator's lag, failures, notes, and the verdict last."""
    console.print(Text(f"{result.model} at {result.url} ({result.api}), measured over {result.seconds:.1f} s"))
    shown = ("p50", "p95", "p99")
    table = Table("", *shown, "unit", "samples", box=None, pad_edge=False)
    for metric in result.metrics:
        title = metric_title(metric.metric, metric.n)
        cells = [_interval(metric.percentiles.get(p)) for p in shown]
        table.add_row(capitalised(title), *cells, metric.unit, f"{metric.samples:,}")
    console.print(table)
    for line in _rates(result):
        console.print(Text(line))
    for failure in result.failures:
        console.print(Text(f"{failure.count:,} failed, {failure.kind}: {failure.sentence}", "red"))
    for note in result.notes:
        console.print(Text(note, "yellow"))
    outcomes = Table("promise", "limit", "measured", "requests", "beyond", "verdict", box=None, pad_edge=False)
    for outcome in result.outcomes:
        objective, value = outcome.objective, figure(outcome.value, outcome.objective.unit)
        counts = (f"{outcome.requests:,}", f"{outcome.over:,}")
        verdict = _verdict(result.verdict and outcome.verdict)
        outcomes.add_row(objective.label, objective_limit(objective), value, *counts, verdict)
    console.print(outcomes)
    console.print(Text("Verdict at 99 % confidence: ").append_text(_verdict(result.verdict)))


def limit_row(load: LoadResult, console: Console) -> None:
    """One load of a search, as soon as it is measured, with the first of the requests that failed."""
    medians = {metric.metric: figure(metric.percentiles["p50"].value, metric.unit) for metric in load.metrics}
    shown = [metric for metric in ("ttft", "tpot", "batch_latency") if metric in medians]
    times = ", ".join(f"{metric_title(metric)} {medians[metric]}" for metric in shown) or "unknown"
    good = "" if load.goodput is None else f", goodput {load.goodput:,.1f}/s"
    rates = f"{load.requests_per_second:,.1f} requests/s, {load.tokens_per_second:,.0f} tokens/s{good}"
    line = Text(f"{_load(load):>5}: {rates}; medians {times}: ").append_text(_verdict(load.verdict))
    console.print(line, soft_wrap=True)
    for failure in load.failures[:1]:
        console.print(Text(f"       {load.failed:,} failed, such as: {failure.sentence}", "red"), soft_wrap=True)


def limit_found(result: LimitResult, console: Console) -> None:
    """The highest load that was met, what is sure of it, and the notes of that load, or of the lowest."""
    confidence = f" The whole search is judged at {100 * result.confidence:g} % confidence." if result.held else ""
    console.print(Text(limit_sentence(result, "with more --seconds a load lasts longer") + confidence, "bold"))
    shown = result.held or result.loads[0]
    for note in shown.notes if shown.verdict else ():
        console.print(Text(note, "yellow"))


def under_load(result: UnderLoadResult, console: Console) -> None:
    """Before, after and the customer's endpoint over the load, and the load that holds on each."""
    measured = (("before", result.before), ("after", result.after), ("your endpoint", result.endpoint))
    sides = [(name, side) for name, side in measured if side]
    table = Table(pad_edge=False)
    for heading in (
        "under load",
        "load",
        "tokens/s",
        "requests/s",
        *(objective.label for objective in result.objectives),
    ):
        table.add_column(heading, justify="left" if heading == "under load" else "right")
    table.add_column("objectives")
    for name, side in sides:
        for load in side.limit.loads:
            values = [figure(outcome.value, outcome.objective.unit) for outcome in load.outcomes]
            rates = (figure(load.tokens_per_second), figure(load.requests_per_second))
            table.add_row(name, _load(load), *rates, *values, _verdict(load.verdict))
    if sides:
        console.print(table)
    console.print(Text(result.sentence))
    for name, side in sides:
        judged = f" {side.served_ids.sentence}" if side.served_ids else ""
        console.print(Text(f"{name.capitalize()}: {side.server.sentence}{judged}"))
    for sentence in filter(None, (result.choice, kernels_by_load(result))):
        console.print(Text(sentence))
    for note in result.notes:
        console.print(Text(note, "yellow"))


def _verdict(verdict: Verdict | None) -> Text:
    """None where the generator's delays void a load: no promise is judged then."""
    return verdict_markup(verdict) if verdict else Text("void", "bold red")


def _load(load: LoadResult) -> str:
    if load.speed is not None:
        return f"{plain(load.speed)}x"
    return f"{load.users:,} at once" if load.rate is None else f"{plain(load.rate)}/s"


def _interval(value: Interval | None) -> str:
    return "–" if value is None else f"{figure(value.value)} [{figure(value.low)}, {figure(value.high)}]"


def _rates(result: LoadResult) -> list[str]:
    tokens, lag = result.tokens, result.lag
    rates = f"{result.requests_per_second:,.1f} requests/s, {result.tokens_per_second:,.0f} tokens/s"
    good = "" if result.goodput is None else f", goodput {result.goodput:,.1f} requests/s"
    ended = f"{result.requests:,} requests counted, {result.completed:,} completed, {result.cancelled:,} cancelled"
    prompt = "not counted" if tokens.prompt is None else f"{tokens.prompt:,}"
    return [
        f"{rates}{good}, {result.in_flight:,.1f} at once on average",
        f"{ended}; prompt tokens {prompt}, output tokens {tokens.output:,}",
        f"Generator's lag: p50 {lag.send_p50:.2f} ms, p99 {lag.send_p99:.2f} ms; its loop p99 {lag.loop_p99:.2f} ms"
        + ("" if lag.processes == 1 else f"; the latest of its {lag.processes} processes"),
    ]
