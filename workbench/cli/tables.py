"""A run's results as tables for a terminal. Every figure names its source."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from workers.charts import comparison as compared
from workers.charts import endpoint, plans
from workers.charts.cells import cell
from workers.charts.comparison import ComparedRun
from workers.cost import against_endpoint
from workers.documents.measurement import Environment
from workers.documents.prices import CostLine, PriceResult
from workers.documents.speedup import Speedup
from workers.documents.stages import ObjectiveOutcome, Results, VerifyResult
from workers.wording import provenance
from workers.wording.stages import DOING
from workers.wording.text import VERDICTS, objective_limit

STYLES = {"met": "bold green", "missed": "bold red", "not_enough_samples": "bold yellow", "too_close": "bold yellow"}


def figure(value: float | None, unit: str = "") -> str:
    """The number with at most three digits behind the point; a dash for None."""
    if value is None:
        return "–"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 4
    return f"{value:,.{digits}f}{' ' if unit else ''}{unit}"


def verdict_markup(value: str | None) -> Text:
    """A verdict in words and colour."""
    return Text(VERDICTS.get(value or "", "–"), STYLES.get(value or "", ""))


def run_list(rows: list[dict[str, Any]], console: Console) -> None:
    """Runs, one a line, each with the beginning of its id."""
    table = Table("run", "workload", "model", "started", "on", "state", "verdict", "tags", box=None, pad_edge=False)
    for row in rows:
        state = row["state"] if row["state"] != "running" else f"running {row['stage']}"
        started = row["created_at"][:16].replace("T", " ")
        names = (Text(row["workload_name"]), Text(row["model_name"]))
        tags = Text(", ".join(row["tags"]))
        table.add_row(row["id"][:8], *names, started, row["gpu_class"], state, verdict_markup(row["verdict"]), tags)
    console.print(table)


def token_list(rows: list[dict[str, Any]], console: Console) -> None:
    """API tokens, one a line."""
    table = Table("id", "name", "token", "scope", "ends", "last used", box=None, pad_edge=False)
    for row in rows:
        ends = f"revoked {row['revoked_at'][:10]}" if row["revoked_at"] else (row["expires_at"] or "never")[:10]
        used = (row["last_used_at"] or "never")[:16].replace("T", " ")
        table.add_row(row["id"], row["name"], f"{row['prefix']}…", row["scope"], ends, used)
    console.print(table)


def model_list(models: list[dict[str, Any]], catalogue: list[dict[str, Any]], console: Console) -> None:
    """The organisation's models, and the catalogue's entries."""
    table = Table("model", "architecture", "parameters", "from", box=None, pad_edge=False)
    for row in catalogue:
        table.add_row(row["name"], row["architecture"], f"{row['parameters']:,}", "catalogue")
    for row in models:
        if row["unreadable"]:
            table.add_row(f"{row['name']}\n{row['content_digest']}", "cannot be read", "–", "–")
        elif row["source"] == "upload":
            table.add_row(
                f"{row['name']}\n{row['content_digest']}", row["architecture"], f"{row['parameters']:,}", "upload"
            )
    console.print(table)
    for row in models:
        if row["unreadable"]:
            console.print(Text(f"{row['unreadable']}. Hand the model in again to mend it.", "red"))


def stages(run: dict[str, Any], console: Console) -> None:
    """How far each stage is; of a run that is over, which of them did not run."""
    over = run["state"] not in ("queued", "running")
    table = Table("stage", "state", "", box=None, pad_edge=False)
    for stage in run["stages"]:
        state, message = stage["state"], stage["message"] or DOING.get(stage["stage"], "")
        if state == "done":
            state, message = "finished", ""
        elif over and state == "pending":
            state, message = "not run", ""
        elif message == "cancelled":
            state, message = message, ""
        table.add_row(stage["stage"], state, Text(message))
    console.print(table)


def outcome(results: Results, console: Console) -> None:
    """Before and after, quality, cost, and the verdict with its sentence."""
    if results.verify is None:
        return
    sentences = against_endpoint.sentences(results, None)
    if sentences:
        console.print(Text(f"From your endpoint to after. {' '.join(sentences)}", "bold"))
    console.print(before_after(results.verify, results.price))
    if measured := endpoint.endpoint_result(results):
        console.print(
            Text(
                f"{measured.server.label}: {measured.sentence} {'' if sentences else endpoint.words(results)}".rstrip()
            )
        )
        rows = endpoint.endpoint_objectives(results)
        if rows:
            console.print(_at_endpoint(rows))
    plan = plans.chosen_trial(results)
    if plan is not None:
        console.print(Text(f"Plan: {plan.label}. {plan.summary}".rstrip()))
        console.print(Text(plans.why(results)))
    if results.verify.quality is not None:
        console.print(Text(results.verify.quality.summary))
    if results.price is not None:
        console.print(Text(results.price.sentence))
    console.print(Text(measured_on(results.verify.environment), "dim"))
    console.print(Text.assemble("Verdict: ", verdict_markup(results.verify.verdict), f"  {results.verify.sentence}"))


def _at_endpoint(rows: Sequence[endpoint.EndpointObjective]) -> Table:
    """Every promise at the customer's endpoint, and whether it is kept there."""
    table = Table(pad_edge=False)
    for heading in ("", "your endpoint", "promised", "verdict there"):
        table.add_column(heading, justify="left" if heading in ("", "verdict there") else "right")
    for row in rows:
        verdict = verdict_markup(row.verdict) if row.verdict else Text("")
        table.add_row(row.label, figure(row.there, row.unit), row.objective_limit, verdict)
    return table


def before_after(verify: VerifyResult, price: PriceResult | None) -> Table:
    """The objectives, the throughput and the price of what the model gives, before and after."""
    table = Table(pad_edge=False)
    for heading in ("", verify.compared_with, "after", "limit", "verdict"):
        table.add_column(heading, justify="left" if heading in ("", "verdict") else "right")
    for row in verify.outcomes:
        table.add_row(*_objective(row))
    before, after = verify.tokens_per_second_before, verify.tokens_per_second_after
    unit = f"{verify.counted}/s"
    table.add_row("throughput (measured)", figure(before, unit), figure(after, unit), "", "")
    if verify.speedup is None:
        table.add_row("change", "", "none recommended", "", "")
    else:
        table.add_row(*_speedup(verify.speedup))
    if price is not None:
        for cells in _costs(price):
            table.add_row(*cells)
    return table


def _objective(row: ObjectiveOutcome) -> tuple[str | Text, ...]:
    objective = row.objective
    limit = objective_limit(objective)
    name = f"{objective.label} (measured, n={row.samples})"
    unit = objective.unit
    return name, figure(row.before, unit), figure(row.after, unit), limit, verdict_markup(row.verdict)


def _speedup(gain: Speedup) -> tuple[str, str, str, str, str]:
    ratio, noise = gain.ratio, gain.noise
    spread = f"{ratio.value:.2f}x ({ratio.low:.2f}–{ratio.high:.2f})"
    words = f"repeats {noise.low:.2f}–{noise.high:.2f}"
    return "speedup (measured)", "", spread, words, "" if gain.difference else "no difference"


def _costs(price: PriceResult) -> list[tuple[str, str, str, str, str]]:
    """The cost of a million tokens (or images) before and after, then that of the other deployments."""
    lines, unit = price.lines, f"$/M {price.counted}"
    sides = {line.label: line for line in lines if line.label in ("before", "after")}
    rows = []
    if sides:
        before, after = sides.get("before"), sides.get("after")
        rows.append((f"{unit} ({_basis(*sides.values())})", _usd(before), _usd(after), "", ""))
    others = [line for line in lines if line.label not in sides]
    return rows + [(f"{unit}, {line.label} ({_basis(line)})", _usd(line), "", "", "") for line in others]


def _usd(line: CostLine | None) -> str:
    return "" if line is None else figure(line.usd_per_mtok, "USD")


def _basis(*lines: CostLine) -> str:
    """Where a cost comes from: the source of its speed and the source of its price, which is never measured."""
    speeds, prices = {line.speed_basis for line in lines}, {line.price_basis for line in lines}
    return f"speed {' and '.join(sorted(speeds))}, price {' and '.join(sorted(prices))}"


def measured_on(environment: Environment) -> str:
    """Where the figures were measured: device, versions, commit and time."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(environment.versions.items()))
    digest, dash, dirty = environment.commit.partition("-")
    commit = f", commit {digest[:12]}{dash}{dirty}" if digest else ""
    state = "".join(f", {clocks}" for clocks in [provenance.clocks(environment)] if clocks)
    return f"Measured on {environment.device} ({environment.gpu_class}){state}, {versions}{commit}, {environment.at}."


def comparison(names: list[str], sides: list[ComparedRun], console: Console) -> None:
    """What each run is, what makes them differ beside their plans, and every section as a table."""
    for side, name in zip(sides, names, strict=True):
        console.print(Text(f"{side.label}: {name}"))
    for sentence in compared.cautions(sides):
        console.print(Text(sentence, "yellow"))
    for section in compared.sections(sides):
        headers, rows = section.table
        table = Table(*headers, title=section.title, title_justify="left", title_style="bold", pad_edge=False)
        for row in rows:
            table.add_row(*(Text(cell(value)) for value in row))
        console.print(table)
        if section.note:
            console.print(Text(section.note, "dim"))
