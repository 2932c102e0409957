"""A report as one HTML file that opens from a disk, offline, without scripts."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from workers.charts import CHARTS, cells, economics, endpoint, plans, prediction, time_spent, under_load
from workers.charts.svg import draw
from workers.cost import against_endpoint, loads, run_economics, same_load
from workers.documents import budget
from workers.documents.load import UnderLoadResult
from workers.documents.model import ModelManifest
from workers.documents.prices import PriceBook
from workers.documents.stages import Results, VerifyResult
from workers.documents.workload import Sla, Workload
from workers.report import glossary, other_limit, summary
from workers.wording import plan_profile, provenance, serving, text

TEMPLATES = Path(__file__).parent / "templates"


class NoVerdict(ValueError):
    """The run has no verified result to report."""


class ReportInput(Protocol):
    """What a report shows: a stage's input, or the snapshot of a frozen report."""

    @property
    def workload(self) -> Workload: ...
    @property
    def model(self) -> ModelManifest: ...
    @property
    def results(self) -> Results: ...
    @property
    def taken(self) -> Mapping[str, float]:
        """Seconds that each stage before this one took."""


@dataclass(frozen=True)
class Cover:
    """What the account team adds to a frozen report. `note` is HTML that was made safe; dates are ISO 8601 days.

    `reviewed` and `published` are a person and a day, or None when that has not happened.
    """

    title: str
    customer: str
    state: str
    note: Markup
    frozen: str
    reviewed: tuple[str, str] | None
    published: tuple[str, str] | None
    prices: PriceBook
    logo: str = ""
    """A data URI of a PNG, or empty."""


def headline(verify: VerifyResult, load: UnderLoadResult | None = None) -> str:
    """The result in one line: `Met: TTF64 p50 81.0 ms (limit 100 ms), 3.47x faster than before in the median`, and
    where both sides were put under load `; shown to hold under load: 20 users after, none before`.
    """
    first = verify.outcomes[0]
    objective, after = first.objective, text.quantity(first.after, first.objective.unit)
    limit = (
        text.objective_limit(objective) if objective.limit is None else text.quantity(objective.limit, objective.unit)
    )
    word = "promised" if objective.limit is None else "limit"
    line = f"{text.VERDICT_LABELS[verify.verdict]}: {objective.label} {after} ({word} {limit})"
    return f"{line}, {speedup_words(verify)}{_under_load(load)}"


def _under_load(load: UnderLoadResult | None) -> str:
    if load is None or load.before is None or load.after is None:
        return ""
    return f"; shown to hold under load: {under_load.kept_loads(load)}"


def speedup_words(verify: VerifyResult) -> str:
    """The paired ratio to what the plan is compared with, in words; inside the noise floor it is no difference."""
    if verify.speedup is None:
        return "no change recommended"
    ratio = verify.speedup.ratio.value
    if not verify.speedup.difference:
        return f"no difference to {verify.compared_with}"
    return f"{text.times(ratio, verify.outcomes[0].objective.unit)} than {verify.compared_with} in the median"


def _charts(document: ReportInput) -> list[dict[str, Any]]:
    drawn = []
    for chart in CHARTS:
        figure = chart.figure(document.results)
        table = chart.table(document.results)
        drawn.append(
            {
                "chart": chart,
                "svg": draw(figure, chart.title) if figure else "",
                "headers": cells.headers(table),
                "rows": cells.rows(table),
                "provenance": provenance.sentence(document.results, chart.stage),
            }
        )
    return [chart for chart in drawn if chart["rows"]]


@cache
def _templates() -> Environment:
    """Compiled once a process: compiling takes most of a report's time."""
    templates = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True)
    templates.filters |= {"quantity": text.quantity, "number": text.number, "percent": text.percent}
    templates.filters |= {"scaled": text.scaled, "dollars": text.dollars, "objective_limit": text.objective_limit}
    return templates


def render(document: ReportInput, cover: Cover | None = None) -> str:
    """The report as HTML; without a cover it calls itself a draft. Raises NoVerdict."""
    verify = document.results.verify
    if verify is None:
        raise NoVerdict("report: the run has no verified result to report")
    template = _templates().get_template("report.html")
    workload = document.workload
    units = run_economics.of_results(document.results, workload, document.model)
    anywhere = loads.of_results(document.results, workload, document.model)
    same = same_load.of_results(document.results, workload, document.model)
    demand = run_economics.demand_of(units, workload, same) if document.results.price else None
    chosen = plans.chosen_trial(document.results)
    other = other_limit.sentence(document.results, workload, document.model)
    page = template.render(
        document=document,
        footer=_css_string(_footer(document, cover)),
        cover=cover,
        workload=workload,
        results=document.results,
        verify=verify,
        verdicts=text.VERDICT_LABELS,
        headline=headline(verify, document.results.load),
        request_words=text.request_words(workload.traffic, document.model),
        speedup_words=speedup_words(verify),
        when_before=text.when_before(verify.compared_with),
        charts=_charts(document),
        unit_rows=economics.unit_rows(units),
        unit_sides=economics.sides(document.results),
        unit_loads=economics.loads(units, economics.sides(document.results)),
        units=units,
        summary=summary.rows(document.results, verify, same, demand, chosen.label if chosen else "", other),
        any_load=anywhere,
        any_load_rows=economics.any_load_rows(anywhere),
        energy_words=economics.energy_words(units, economics.sides(document.results)),
        price_lines=economics.lines(document.results),
        price_caution=economics.caution(document.results, workload.traffic.batch),
        chosen_plan=chosen,
        why_chosen=plans.why(document.results),
        predicted=prediction.rows(document.results),
        predicted_words=prediction.words(document.results),
        busy=provenance.busy(document.results),
        unlike_before=time_spent.unlike_before(document.results, workload),
        left_lines=plan_profile.lines(verify.profile) if verify.profile else [],
        gpus_words=provenance.gpus_words(document.results),
        unlike_after=time_spent.unlike_after(document.results, workload),
        time_words=budget.sentence(workload, document.taken, document.results),
        load_notes=under_load.load_notes(document.results),
        kernels_by_load=under_load.kernels_by_load(document.results.load),
        endpoint=endpoint.endpoint_result(document.results),
        against_endpoint=against_endpoint.sentences(document.results, workload),
        endpoint_objectives=endpoint.endpoint_objectives(document.results),
        endpoint_words=endpoint.words(document.results),
        before_words=text.before_words(workload, document.model),
        facts=provenance.facts(verify.environment, verify.gpus),
        provenance=provenance.sentence(document.results, "verify"),
        sla=Sla.model_validate(workload.model_dump(exclude={"model"})).model_dump_json(indent=2, exclude_none=True),
        plan=json.dumps(serving.served_plan(document.results), indent=2),
        serving=serving.serve_instructions(document.results, document.model),
    )
    return _with_contents(_with_words(page, document.model.kind == "decoder"))


def _footer(document: ReportInput, cover: Cover | None) -> str:
    """What stands below every page on paper."""
    if cover is None:
        return f"{document.workload.name or document.model.name} · draft"
    return " · ".join(filter(None, (cover.title, cover.customer)))


def _css_string(words: str) -> Markup:
    """The text between the quotes of a string of CSS."""
    return Markup("".join(word if word.isalnum() or word == " " else f"\\{ord(word):x} " for word in words))


NO_WORDS = '<dl class="words"></dl>'


def _with_words(page: str, generates: bool) -> str:
    """The page with what its words mean."""
    rows = "".join(f"<dt>{name}</dt><dd>{meaning}</dd>" for name, meaning in glossary.used_in(page, generates))
    return page.replace(NO_WORDS, f'<dl class="words">{rows}</dl>', 1)


HEADING = re.compile(r"<h2>(.*?)(?: <span.*?)?</h2>")
CONTENTS = '<nav class="contents" aria-label="Contents">'


def _with_contents(page: str) -> str:
    """The page with an id on every heading and a list of links to them."""
    links: list[str] = []

    def numbered(match: re.Match[str]) -> str:
        links.append(f'<li><a href="#part-{len(links) + 1}">{match[1]}</a></li>')
        return match[0].replace("<h2>", f'<h2 id="part-{len(links)}">', 1)

    page = HEADING.sub(numbered, page)
    return page.replace(CONTENTS, f"{CONTENTS}<ol>{''.join(links)}</ol>", 1)
