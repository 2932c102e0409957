"""The page of API tokens."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from workbench.accounts import shown_once, tokens
from workbench.accounts.forms import TokenForm
from workbench.accounts.services import AccountError

PAGE_SIZE = 50


@never_cache
def token_list(request: Any) -> HttpResponse:
    """Lists tokens; a POST makes one, whose secret the page then shows once."""
    if request.membership is None:
        raise PermissionDenied("You are not a member of any organisation.")
    form = TokenForm(request.POST if request.method == "POST" else None)
    if request.method == "POST":
        try:
            if form.is_valid():
                _, secret = tokens.issue(request.organisation, request.user, **form.cleaned_data)
                shown_once.keep(request, "token", secret)
                return redirect("tokens")
        except AccountError as error:
            form.add_error(error.field, error.sentence)
    page = Paginator(tokens.visible(request.user, request.membership), PAGE_SIZE).get_page(request.GET.get("page"))
    context = {"page": page, "form": form, "secret": shown_once.take(request, "token")}
    return render(request, "accounts/tokens.html", context, status=422 if form.is_bound else 200)


@require_POST
def revoke_token(request: Any, token_id: Any) -> HttpResponse:
    """Ends a token at once."""
    token = get_object_or_404(tokens.visible(request.user, request.membership), pk=token_id)
    tokens.revoke(token)
    messages.success(request, f"{token.name} has been revoked.")
    return redirect("tokens")
