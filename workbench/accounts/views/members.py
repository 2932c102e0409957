"""Login, and the pages of members and invitations."""

from typing import Any

from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from workbench.accounts import services, shown_once
from workbench.accounts.forms import AcceptForm, InvitationForm
from workbench.accounts.middleware import SESSION_KEY
from workbench.accounts.models import Invitation, Membership, Role, User
from workbench.accounts.permissions import admin_required, can_admin
from workbench.accounts.services import AccountError

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


def _change(request: HttpRequest, change: Any, done: str) -> HttpResponse:
    try:
        change()
    except AccountError as error:
        messages.error(request, error.sentence)
    else:
        messages.success(request, done)
    return redirect("members")


@require_POST
@admin_required
def change_role(request: Any, membership_id: Any) -> HttpResponse:
    """Gives a member another role."""
    membership = get_object_or_404(Membership.objects.for_user(request.user), pk=membership_id)
    role = request.POST.get("role", "")
    return _change(request, lambda: services.change_role(membership, role), f"{membership.user} is now {role}.")


@require_POST
@admin_required
def remove_member(request: Any, membership_id: Any) -> HttpResponse:
    """Ends a membership."""
    membership = get_object_or_404(Membership.objects.for_user(request.user), pk=membership_id)
    return _change(request, lambda: services.remove(membership), f"{membership.user} has been removed.")


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
    known = User.objects.filter(email=opened.email).exists()
    form = AcceptForm(request.POST or None, email=opened.email)
    context = {"invitation": opened, "known": known, "form": form}
    if request.method != "POST" or (known and not request.user.is_authenticated):
        return render(request, "accounts/invitation.html", context)
    try:
        if known:
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
