"""The page of a customer's logo."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from workbench.accounts.permissions import reviewer_required
from workbench.reports import logos
from workbench.reports.forms import LogoForm


@reviewer_required
def logo(request: Any) -> HttpResponse:
    """Shows the logo that new reports carry; a POST changes it."""
    form = LogoForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        try:
            logos.keep(request.organisation, form.cleaned_data["picture"], request.user)
        except logos.LogoError as error:
            form.add_error("picture", str(error))
        else:
            messages.success(request, "Reports that are frozen from now on carry this logo.")
            return redirect("logo")
    context = {"form": form, "logo": logos.of(request.organisation)}
    return render(request, "reports/logo.html", context, status=422 if form.is_bound else 200)


@require_POST
@reviewer_required
def remove(request: Any) -> HttpResponse:
    """Reports that are frozen from now on carry no logo."""
    logos.remove(request.organisation, request.user)
    messages.success(request, "The logo is removed. Reports that were frozen with it keep it.")
    return redirect("logo")
