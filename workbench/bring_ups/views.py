"""Pages about bring-ups: the list with the form, one document, two side by side."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from kernels.bring_up.document import ModelCost
from kernels.bring_up.report import absent
from workbench.accounts.permissions import can_review, can_submit, submitter_required
from workbench.api.sentences import Problem
from workbench.bring_ups import services, tables
from workbench.bring_ups.models import BringUpRow
from workbench.prices.services import price_book
from workbench.results.page_context import ChartView, chart_view
from workers.charts.base import Figure, Table
from workers.documents.base import Basis


class BringUpForm(forms.Form):
    """The file that a bring-up wrote."""

    file = forms.FileField(
        label="bring-up.json",
        help_text="From the folder that python -m kernels bring-up wrote on the GPU; 768 KiB at most.",
        widget=forms.ClearableFileInput(attrs={"accept": ".json,application/json"}),
    )


PAGE_SIZE = 25


@require_http_methods(["GET", "HEAD", "POST"])
def bring_up_list(request: Any) -> HttpResponse:
    """Every bring-up of the organisation, the newest first; engineers and admins hand in another one."""
    form = BringUpForm(request.POST or None, request.FILES or None)
    if request.method == "POST":
        if not can_submit(request.membership):
            raise PermissionDenied("Only an engineer or an admin of the organisation may do this.")
        if form.is_valid():
            try:
                row = services.add(request.organisation, request.user, services.read(form.cleaned_data["file"]))
            except Problem as problem:
                form.add_error("file", problem.detail)
            else:
                messages.success(request, f"The bring-up of {row.device} is added.")
                return redirect("bring-up", row.id)
    rows = BringUpRow.objects.for_user(request.user).defer("content").select_related("created_by")
    page = Paginator(rows, PAGE_SIZE).get_page(request.GET.get("page"))
    context = {"page": page, "form": form, "may_add": can_submit(request.membership)}
    return render(request, "bring_ups/list.html", context, status=422 if request.method == "POST" else 200)


@require_safe
def bring_up_page(request: Any, bring_up_id: UUID) -> HttpResponse:
    """One bring-up: what works, what fails and why, shares, gaps in order of cost, and the next ten things."""
    row = _row(request, bring_up_id)
    bring_up = row.document
    context = {
        "row": row,
        "found": bring_up,
        "next_steps": tables.next_steps(bring_up),
        "facts": tables.facts(bring_up),
        "ceilings": _table("ceilings", "Measured ceilings", tables.ceilings(bring_up)),
        "limits": _table("limits", "Other limits", tables.known_limits(bring_up)),
        "absent": absent(bring_up),
        "proofs": _table("proofs", "Variants at the gate", tables.proofs(bring_up)),
        "failures": _table("failures", "What failed, and why", tables.failures(bring_up)),
        "refusals": _table("refusals", "Variants that served no case", tables.refusals(bring_up)),
        "shares": _table("shares", "Shares by op", tables.shares(bring_up)),
        "races": _table("races", "Every case", tables.races(bring_up)),
        "models": [(model, _gaps(f"gaps-{at}", model)) for at, model in enumerate(bring_up.models)],
        "lacks_price": services.lacks_price(bring_up, price_book(request.organisation)),
        "may_price": can_review(request.membership),
        "may_delete": can_submit(request.membership),
        "others": BringUpRow.objects.for_user(request.user).defer("content").exclude(id=row.id)[:PAGE_SIZE],
    }
    return render(request, "bring_ups/bring_up.html", context)


@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    """Two bring-ups side by side; `?a=` and `?b=` name them."""
    rows = BringUpRow.objects.for_user(request.user)
    chosen = [_chosen(rows, request.GET.get(side, "")) for side in ("a", "b")]
    context: dict[str, Any] = {"chosen": chosen, "offered": rows.defer("content")[:PAGE_SIZE], "sections": []}
    if all(chosen):
        sides = [row.document for row in chosen if row]
        context["sections"] = [
            _table("both-ceilings", "Measured ceilings", tables.both_ceilings(sides)),
            _table("both-models", "A request of each model", tables.both_models(sides), basis="modelled"),
            _table("both-shares", "Shares by op", tables.compare_shares(sides)),
            _table("both-proofs", "Variants that end otherwise", tables.both_proofs(sides)),
            _table("both-races", "Cases raced on both", tables.both_races(sides)),
        ]
    return render(request, "bring_ups/compare.html", context)


@require_POST
@submitter_required
def delete(request: HttpRequest, bring_up_id: UUID) -> HttpResponse:
    """Deletes a bring-up, on which nothing depends."""
    services.delete(_row(request, bring_up_id), request.user)
    messages.success(request, "The bring-up has been deleted.")
    return redirect("bring-up-list")


def _row(request: HttpRequest, bring_up_id: UUID) -> BringUpRow:
    rows = BringUpRow.objects.for_user(request.user).select_related("created_by", "organisation")
    return get_object_or_404(rows, id=bring_up_id)


def _chosen(rows: Any, text: str) -> BringUpRow | None:
    if not text:
        return None
    try:
        return get_object_or_404(rows, id=UUID(text))
    except ValueError:
        raise Http404 from None


def _table(key: str, title: str, table: Table, basis: Basis = "measured", figure: Figure | None = None) -> ChartView:
    return chart_view(key, title, "", basis, "", figure, table)


def _gaps(key: str, model: ModelCost) -> ChartView:
    """The gaps of a model: measured times of single ops by their calls in a request. No request was timed."""
    return _table(key, f"Gaps of {model.model}", tables.gaps(model), "modelled", tables.gaps_figure(model))
