"""Login, and the pages of members, invitations, API tokens and the audit log."""

from typing import Any

from allauth.account.utils import perform_login
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.views import remove_webauthn
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from workbench.accounts import services, shown_once, tokens
from workbench.accounts.audit import AuditFilter
from workbench.accounts.forms import AcceptForm, InvitationForm, LoginForm, TokenForm
from workbench.accounts.middleware import SESSION_KEY
from workbench.accounts.models import Invitation, Membership, Role, User
from workbench.accounts.permissions import admin_required, can_admin, member_required
from workbench.accounts.services import AccountError
from workbench.audit.models import Entry
from workbench.pages.filters import left_out
from workbench.pages.outcome import attempt

PAGE_SIZE = 50


@never_cache
def members(request: Any, form: InvitationForm | None = None, status: int = 200) -> HttpResponse:
    """The members of the organisation. An admin invites, changes and removes members here."""
    memberships = Membership.objects.for_user(request.user).select_related("user")
    invitations = Invitation.objects.for_user(request.user).filter(accepted_at=None)
    if not can_admin(request.membership):
        invitations = invitations.none()
    context = {
        "page": Paginator(memberships, PAGE_SIZE).get_page(request.GET.get("page")),
        "invited": Paginator(invitations, PAGE_SIZE).get_page(request.GET.get("invited")),
        "roles": Role.choices,
        "form": form or InvitationForm(),
        "link": shown_once.take(request, "invitation"),
    }
    return render(request, "accounts/members.html", context, status=status)


@require_POST
@admin_required
def invite(request: Any) -> HttpResponse:
    """Makes an invitation, whose link the page of members then shows once."""
    form = InvitationForm(request.POST)
    if form.is_valid():
        try:
            _, secret = services.invite(request.organisation, request.user, **form.cleaned_data)
        except AccountError as error:
            form.add_error(error.field, error.sentence)
        else:
            link = request.build_absolute_uri(reverse("invitation", args=[secret]))
            shown_once.keep(request, "invitation", link)
            return redirect("members")
    return members(request, form, status=422)


@require_POST
@admin_required
def change_role(request: Any, membership_id: Any) -> HttpResponse:
    """Gives a member another role."""
    membership = get_object_or_404(Membership.objects.for_user(request.user), pk=membership_id)
    role = request.POST.get("role", "")
    done = f"{membership.user} is now {role}."
    attempt(request, lambda: services.change_role(membership, role), done, AccountError)
    return redirect("members")


@require_POST
@admin_required
def remove_member(request: Any, membership_id: Any) -> HttpResponse:
    """Ends a membership."""
    membership = get_object_or_404(Membership.objects.for_user(request.user), pk=membership_id)
    attempt(request, lambda: services.remove(membership), f"{membership.user} has been removed.", AccountError)
    return redirect("members")


@require_POST
@admin_required
def four_eyes(request: Any) -> HttpResponse:
    """Asks for two people to publish a report, or no longer."""
    services.set_four_eyes(request.organisation, "four_eyes" in request.POST)
    messages.success(request, "The rule for publishing reports is saved.")
    return redirect("members")


@require_POST
@admin_required
def withdraw_invitation(request: Any, invitation_id: Any) -> HttpResponse:
    """Ends an invitation that has not been accepted."""
    invitations = Invitation.objects.for_user(request.user).filter(accepted_at=None)
    services.withdraw(get_object_or_404(invitations, pk=invitation_id))
    messages.success(request, "The invitation has been withdrawn.")
    return redirect("members")


@login_not_required
@never_cache
@sensitive_post_parameters("password")
def invitation(request: Any, secret: str) -> HttpResponse:
    """The page behind an invitation's link: newcomers choose a password, a member of another organisation joins."""
    opened = services.open_invitation(secret)
    if opened is None:
        return render(request, "accounts/invitation_ended.html", status=404)
    has_account = User.objects.filter(email=opened.email).exists()
    form = AcceptForm(request.POST or None, email=opened.email)
    context = {"invitation": opened, "known": has_account, "form": form}
    if request.method != "POST" or (has_account and not request.user.is_authenticated):
        return render(request, "accounts/invitation.html", context)
    try:
        if has_account:
            services.accept(opened, request.user)
        elif form.is_valid():
            user = services.register_invited(opened, form.cleaned_data["name"], form.cleaned_data["password"])
            login(request, user)
        else:
            return render(request, "accounts/invitation.html", context, status=422)
    except AccountError as error:
        context["sentence"] = error.sentence
        return render(request, "accounts/invitation.html", context, status=422)
    request.session[SESSION_KEY] = str(opened.organisation_id)
    return redirect("/")


@require_POST
def switch_organisation(request: Any) -> HttpResponse:
    """Switches the session to another of the member's organisations."""
    chosen = request.POST.get("organisation", "")
    if chosen not in {str(membership.organisation_id) for membership in request.memberships}:
        raise Http404
    request.session[SESSION_KEY] = chosen
    after = request.POST.get("next", "/")
    return redirect(after if url_has_allowed_host_and_scheme(after, {request.get_host()}) else "/")


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


@require_safe
@admin_required
def audit_log(request: Any) -> HttpResponse:
    """Who did what in the organisation, newest first."""
    form = AuditFilter(request.GET)
    valid = form.is_valid()
    entries = form.applied(Entry.objects.of(request.organisation)) if valid else Entry.objects.none()
    page = Paginator(entries, PAGE_SIZE).get_page(request.GET.get("page"))
    context = {"form": form, "page": page, "left_out": left_out(request.GET, form) if valid else []}
    return render(request, "accounts/audit.html", context, status=200 if valid else 422)


@never_cache
@member_required
def token_list(request: Any) -> HttpResponse:
    """Lists tokens; a POST makes one, whose secret the page then shows once."""
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
