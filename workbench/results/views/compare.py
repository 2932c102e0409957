"""The page that compares runs. Its address holds which."""

from dataclasses import replace
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from workbench.results import page_context
from workbench.runs import services
from workbench.runs.models import Run
from workers.charts import comparison
from workers.documents.measurement import Interval
from workers.documents.profile import RequestTimeline
from workers.documents.stages import Results
from workers.stats import intervals
from workers.stats.intervals import difference

OFFERED = 50
"""How many of the newest runs can be added from a list."""

BASES = {"workloads": "stated", "cost": "modelled"}
"""Where the figures of a section come from, unless they were measured."""


@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    """Two to six runs side by side; `?run=` names each. Runs that are not the caller's are left out."""
    rows = Run.objects.for_user(request.user).select_related("workload__model")
    requested = list(dict.fromkeys(filter(None, map(_uuid, request.GET.getlist("run")))))
    run_of = {run.id: run for run in rows.filter(id__in=requested)}
    runs = [run_of[run_id] for run_id in requested if run_id in run_of][: comparison.MAX_RUNS]
    sides = _sides(runs)
    enough = len(sides) > 1
    sections = [
        page_context.chart_view(
            section.key,
            section.title,
            section.note,
            BASES.get(section.key, "measured"),
            "",
            section.figure,
            section.table,
        )
        for section in (comparison.sections(sides) if enough else [])
    ]
    timelines = [
        (side.label, reverse(f"run-timeline-{when}", args=[run.id]), traced.duration_ms)
        for side, run in zip(sides, runs, strict=True)
        for when, traced in [_timeline(side.results)]
        if traced
    ]
    context = {
        "timelines": timelines if len(timelines) > 1 else [],
        "longest_timeline_ms": max((duration_ms for *_, duration_ms in timelines), default=0),
        "sides": list(zip(sides, runs, strict=True)),
        "sections": sections,
        "gpu_classes": dict.fromkeys(run.gpu_class for run in runs),
        "cautions": comparison.cautions(sides) if enough else [],
        "offered": rows.filter(state=Run.State.DONE).exclude(id__in=run_of)[:OFFERED],
        "full": len(runs) == comparison.MAX_RUNS,
        "left_out": len(requested) - len(runs),
        "most": comparison.MAX_RUNS,
    }
    return render(request, "results/compare.html", context)


def _sides(runs: list[Run]) -> list[comparison.ComparedRun]:
    """The runs with their results, and with how far each lies from the first."""
    sides = comparison.labelled(
        (run.workload.reading[0], run.workload.model.digest, services.reading(run)[0]) for run in runs
    )
    first, *others = (intervals.medians(side.results) for side in sides) if sides else [{}]
    differences = [dict.fromkeys(first, Interval(value=0, low=0, high=0))]
    differences += [{key: difference(first[key], own[key]) for key in own if key in first} for own in others]
    return [replace(side, differences=shares) for side, shares in zip(sides, differences, strict=False)]


def _timeline(results: Results) -> tuple[str, RequestTimeline | None]:
    """The traced request of the run's plan, or of what runs today where no plan has one."""
    after = results.verify.profile.timeline if results.verify and results.verify.profile else None
    return ("after", after) if after else ("before", results.profile.timeline if results.profile else None)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
