"""The price book of an organisation: the one in force, its history, and a form to add the next."""

import re
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from workbench.accounts.permissions import can_review
from workbench.api.sentences import Problem
from workbench.prices.forms import PriceBookForm
from workbench.prices.models import PriceBookRow
from workbench.prices.schemas import NAME_LENGTH
from workbench.prices.services import add_price_book, price_book
from workbench.short_text import check_short_text

GPU_CLASS = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")


def _clean_name(text: str) -> str:
    """The name of a class as a link gives it; "" where it is none."""
    try:
        return check_short_text(text)[:NAME_LENGTH]
    except ValueError:
        return ""


@require_http_methods(["GET", "HEAD", "POST"])
def prices(request: Any) -> HttpResponse:
    """Shows the book in force and its history; the account role and admins add a new dated book.

    `?gpu=` and `?name=` ask for the price of one more class.
    """
    book, gpu_class = price_book(request.organisation), request.GET.get("gpu", "")
    names = {gpu_class: _clean_name(request.GET.get("name", "")) or gpu_class} if GPU_CLASS.fullmatch(gpu_class) else {}
    form = PriceBookForm(request.POST if request.method == "POST" else None, book=book, names=names)
    if request.method == "POST":
        if not can_review(request.membership):
            raise PermissionDenied("Only the account role or an admin of the organisation may change prices.")
        if form.is_valid():
            try:
                add_price_book(request.organisation, request.user, form.book())
            except Problem as problem:
                form.add_error(None, problem.detail)
            else:
                messages.success(request, "The new price book is in force. Reports keep the prices they had.")
                return redirect("prices")
    history = PriceBookRow.objects.for_user(request.user).select_related("created_by")
    context = {"book": book, "form": form, "history": history, "own": history.exists(), "asked": names}
    return render(request, "prices/prices.html", context, status=422 if form.is_bound else 200)
