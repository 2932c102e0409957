"""Login by password, and then by the second factor where there is one."""

from typing import Any

from allauth.account.utils import perform_login
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.views import remove_webauthn
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from workbench.accounts.forms import LoginForm


class PasswordLogin(LoginView):
    """Email and password. A person with a second factor is asked for it next and is not logged in before."""

    template_name = "accounts/login.html"
    authentication_form = LoginForm
    redirect_authenticated_user = True

    def form_valid(self, form: Any) -> HttpResponse:
        return perform_login(self.request, form.get_user(), redirect_url=self.get_success_url())


def remove_passkey(request: HttpRequest, pk: int) -> HttpResponse:
    """Removes one of the caller's own keys; asks for the password first."""
    get_object_or_404(Authenticator, pk=pk, user_id=request.user.pk, type=Authenticator.Type.WEBAUTHN)
    return remove_webauthn(request, pk=pk)


@login_not_required
@never_cache
@require_safe
def session_state(request: Any) -> HttpResponse:
    """Whether the session still acts for `?organisation=`: 204. Without a login 401, for another organisation 409.

    A page asks before it sends a form, since what was typed would be lost with the answer (app.js).
    """
    if not request.user.is_authenticated:
        return HttpResponse(status=401)
    current = str(request.organisation.pk) if request.organisation else ""
    return HttpResponse(status=204 if request.GET.get("organisation", "") == current else 409)
