"""The page that says what a fleet for a stated demand costs. Its address holds the demand."""

from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from django_htmx.http import replace_url

from workbench.results.fleet import FleetAnswer, FleetForm, answer, counted_by, demanded, one_at_a_time, promise_or_not
from workbench.runs import services
from workbench.runs.views.runs import get_run
from workers.cost import any_load, same_load, study


@require_safe
def fleet(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """GPUs, bills and break-even for the demand in the address; htmx gets the part alone.

    404 before the run is priced. Where no load holds on either side, or one request at a time is all that was measured,
    there is nothing to calculate with, and it says so.
    """
    run = get_run(request, run_id)
    known, _ = services.reading(run)
    workload, _ = run.workload.reading
    manifest, _ = run.workload.model.reading
    economics = study.of_results(known, workload, manifest) if workload and manifest else None
    if economics is None and known.price is None:
        raise Http404("The run has no prices yet.")
    part = request.htmx  # type: ignore[attr-defined]
    template = "results/_fleet.html" if part else "results/fleet.html"
    both = same_load.of_results(known, workload, manifest) if workload and manifest else None
    stated = study.demand_of(economics, workload, both) if workload else None
    anywhere = bool(workload and manifest and any_load.of_results(known, workload, manifest))
    why = ""
    if workload and manifest and both and not (economics and economics.before and economics.after):
        why = promise_or_not(economics, both.before.load)
        economics = study.served(workload, manifest, (both.before, both.after))
    if economics is None:
        loaded = known.load is not None
        return render(request, template, {"run": run, "stated": stated, "loaded": loaded, "any_load": anywhere})
    if one_at_a_time(economics):
        return render(request, template, {"run": run, "stated": stated, "one_at_a_time": True})
    form, calculated = FleetForm(economics, request.GET or demanded(stated)), FleetAnswer([], [])
    if form.is_valid():
        try:
            calculated = answer(economics, form.cleaned_data, same_load=bool(why))
        except ValueError as error:
            form.add_error(None, str(error))
    context = {"run": run, "form": form, "answer": calculated, "stated": stated, "any_load": bool(why) and anywhere}
    context |= {"counted_by": counted_by(economics), "promise_or_not": why}
    context["arrangement"] = known.price.arrangement if known.price else ""
    page = render(request, template, context)
    return replace_url(page, request.get_full_path()) if part and _shown_at(request) else page


def _shown_at(request: Any) -> bool:
    """Whether the part is asked for by the calculator's own page, whose address holds the demand."""
    return urlsplit(request.htmx.current_url_abs_path or "").path == request.path
