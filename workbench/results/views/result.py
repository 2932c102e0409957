"""The result of a run: the verdict first, then what was measured."""

from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from django.core.cache import caches
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe
from django_htmx.http import replace_url

from workbench.results import page_context
from workbench.results.fleet import (
    FleetAnswer,
    FleetForm,
    answer,
    counted_by,
    demanded,
    one_at_a_time,
    same_load_sentence,
)
from workbench.runs import services
from workbench.runs.models import Run
from workbench.runs.views.runs import get_run, lacking
from workbench.web import pdf
from workers.cost import loads, run_economics, same_load
from workers.documents.base import Artifact
from workers.documents.money import StatedFleet, UnitEconomics
from workers.documents.profile import LaneSummary, RequestTimeline
from workers.documents.stages import STAGES, Results
from workers.wording.text import percent


@require_safe
def fleet(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """GPUs, bills and break-even for the demand in the address; htmx gets the part alone.

    404 before the run is priced. Where no load holds on either side, or one request at a time is all that was measured,
    there is nothing to calculate with, and it says so.
    """
    run = get_run(request, run_id)
    results, _ = services.reading(run)
    if results.price is None:
        return lacking(request, run, "price")
    part = request.htmx  # type: ignore[attr-defined]
    template = "results/_fleet.html" if part else "results/fleet.html"
    economics, promise_or_not, stated, any_load = _fleet_basis(run, results)
    context: dict[str, Any] = {"run": run, "stated": stated}
    if economics is None:
        return render(request, template, context | {"loaded": results.load is not None, "any_load": any_load})
    if one_at_a_time(economics):
        return render(request, template, context | {"one_at_a_time": True})
    form, calculated = FleetForm(economics, request.GET or demanded(stated)), FleetAnswer([], [])
    if form.is_valid():
        try:
            calculated = answer(economics, form.cleaned_data, same_load=bool(promise_or_not))
        except ValueError as error:
            form.add_error(None, str(error))
    context |= {"form": form, "answer": calculated, "any_load": bool(promise_or_not) and any_load}
    context |= {"counted_by": counted_by(economics), "promise_or_not": promise_or_not}
    context["arrangement"] = results.price.arrangement
    page = render(request, template, context)
    # The address of the calculator's own page holds the demand.
    asked_there = part and urlsplit(part.current_url_abs_path or "").path == request.path
    return replace_url(page, request.get_full_path()) if asked_there else page


class _FleetBasis(NamedTuple):
    """What fleets are calculated from: the loads that hold, or where a side has none, both sides at one load.

    `economics` is None without either. `promise_or_not` says why it is one load, "" where it is not. `stated` is the
    demand of the workload, and `any_load` whether loads were measured at all.
    """

    economics: UnitEconomics | None = None
    promise_or_not: str = ""
    stated: StatedFleet | None = None
    any_load: bool = False


def _fleet_basis(run: Run, results: Results) -> _FleetBasis:
    workload, _ = run.workload.reading
    manifest, _ = run.workload.model.reading
    if workload is None:
        return _FleetBasis()
    if manifest is None:
        return _FleetBasis(stated=run_economics.demand_of(None, workload, None))
    economics, promise_or_not = run_economics.of_results(results, workload, manifest), ""
    both = same_load.of_results(results, workload, manifest)
    stated = run_economics.demand_of(economics, workload, both)
    if both and not (economics and economics.before and economics.after):
        promise_or_not = same_load_sentence(economics, both.before.load)
        economics = run_economics.served_loads(workload, manifest, (both.before, both.after))
    return _FleetBasis(economics, promise_or_not, stated, bool(loads.of_results(results, workload, manifest)))


@require_safe
def result(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """The results, the verdict first. For an unfinished run the page shows what is known so far."""
    run = get_run(request, run_id)
    rendered = _cached_body(run) if run.state == Run.State.DONE else _body(run)
    context = {
        "run": run,
        "summary": rendered.summary,
        "body": rendered.html,
        "stages": rendered.stages,
        "servable": rendered.servable,
        "fleet": rendered.fleet,
        "other_limit": rendered.other_limit,
        "void": rendered.void,
        "unreadable": rendered.unreadable,
        "minutes_wanted": services.minutes_wanted(run),
        "has_pdf": pdf.available(),
        "artifacts": run.artifacts.all(),
        "reports": run.reports.defer("snapshot"),
    }
    return render(request, "results/result.html", context)


class RenderedResult(NamedTuple):
    """The part of a result's page that is made of stored documents.

    `summary` is its first screen and `html` the rest. `stages` have known results, `servable` says whether the plan is
    recommended and can be served, `fleet` whether what users cost follows, `other_limit` which limit would hold, and
    `void` whether other programs disturbed what was measured.
    `unreadable` is a sentence about the first document that cannot be read, or "".
    """

    summary: str
    html: str
    stages: list[str]
    servable: bool
    fleet: bool
    other_limit: str
    void: bool
    unreadable: str = ""


def _cached_body(run: Run) -> RenderedResult:
    """The body of a run that is done, which never changes; it is kept for some minutes."""
    cached = caches["results"].get(str(run.pk))
    if cached is not None:
        summary, html, *rest = cached
        return RenderedResult(mark_safe(summary), mark_safe(html), *rest)
    rendered = _body(run)
    if not rendered.unreadable:
        caches["results"].set(str(run.pk), list(rendered[:-1]))
    return rendered


def _body(run: Run) -> RenderedResult:
    known, unreadable_result = services.reading(run)
    document, unreadable = run.workload.reading
    manifest, unreadable_model = run.workload.model.reading
    context = page_context.context(document, manifest, known, services.stage_times(run))
    context |= {
        "run": run,
        "no_verdict": f"{services.lacks(run, 'verdict')} {_busy_words(run, known)}".rstrip(),
        "timelines": (timelines := _timelines(known, context["compared_with"])),
        "longest_timeline_ms": max((timeline.shown.duration_ms for timeline in timelines), default=0),
    }
    serving = context["serving"]
    return RenderedResult(
        summary=render_to_string("results/_summary.html", context),
        html=render_to_string("results/_result.html", context),
        stages=[stage for stage in STAGES if getattr(known, stage) is not None],
        servable=serving is not None and not serving.refusal and known.verify is not None and known.verify.recommended,
        fleet=context["units"] is not None and not one_at_a_time(context["units"]),
        other_limit=context["other_limit"],
        void=context["void"],
        unreadable=unreadable or unreadable_model or unreadable_result,
    )


def _busy_words(run: Run, results: Results) -> str:
    """That other programs used the CPU while plans were tried, which may be why a run has no verdict; "" otherwise."""
    share = results.compose.environment.busy_share if results.compose else None
    if share is None or run.state == Run.State.CANCELLED:
        return ""
    return f"Other programs used {percent(share, 0)} of the CPU: run it again on an idle machine."


class _Timeline(NamedTuple):
    """The timeline of a traced request, before or after, and the trace that it was made of."""

    side: str
    title: str
    shown: RequestTimeline
    trace: Artifact | None

    @property
    def lanes(self) -> list[tuple[LaneSummary, float | None]]:
        """Each lane, and the share of the timeline in which it is busy."""
        duration_ms = self.shown.duration_ms
        return [(lane, lane.busy_ms / duration_ms if duration_ms else None) for lane in self.shown.lanes]


def _timelines(results: Results, compared_with: str) -> list[_Timeline]:
    before, after = results.profile, results.verify.profile if results.verify else None
    timelines = []
    if before and before.timeline:
        timelines.append(_Timeline("before", compared_with.capitalize(), before.timeline, before.trace))
    if after and after.timeline:
        timelines.append(_Timeline("after", "After, the verified plan", after.timeline, after.trace))
    return timelines
