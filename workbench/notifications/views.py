"""The pages of notifications: what a member gets by e-mail, the organisation's webhooks, and the log."""

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from workbench.accounts import shown_once
from workbench.accounts.permissions import admin_required, can_admin, member_required
from workbench.api.sentences import Problem
from workbench.notifications import mail, outbox, services
from workbench.notifications.models import CHOOSABLE, POSTED, Delivery, Notice, Webhook
from workbench.pages.outcome import attempt


class MailForm(forms.Form):
    """What a member gets by e-mail."""

    kinds = forms.MultipleChoiceField(
        choices=CHOOSABLE,
        required=False,
        label="Write to me when",
        widget=forms.CheckboxSelectMultiple(attrs={"id": "id_mail_kinds"}),  # the other form stands on the same page
    )


class WebhookForm(forms.Form):
    """A webhook's address and the kinds of its messages."""

    url = forms.CharField(
        label="Address",
        max_length=500,
        widget=forms.URLInput(attrs={"placeholder": "https://"}),
        help_text="It is posted to over HTTPS; addresses inside a network are refused.",
    )
    kinds = forms.MultipleChoiceField(
        choices=POSTED, label="Post when", initial=[kind for kind, _ in POSTED], widget=forms.CheckboxSelectMultiple
    )


PAGE_SIZE = 50


@never_cache
@member_required
def inbox(request: Any) -> HttpResponse:
    """What concerns the member, newest first; a POST marks all as read."""
    membership = request.membership
    if request.method == "POST":
        membership.inbox_read_at = timezone.now()
        membership.save(update_fields=["inbox_read_at"])
        return redirect("inbox")
    page = Paginator(Notice.objects.inbox(membership), PAGE_SIZE).get_page(request.GET.get("page"))
    rows = [_inbox_row(notice, membership.inbox_read_at) for notice in page]
    return render(request, "notifications/inbox.html", {"page": page, "rows": rows})


def _inbox_row(notice: Notice, read_at: datetime | None) -> dict[str, Any]:
    subject, lines = mail.words(notice)
    address = urlsplit(next(iter(notice.data.values()))["url"])
    text = "\n".join(line for line in lines[:-1] if line)
    return {
        "subject": subject,
        "text": text,
        "address": address._replace(scheme="", netloc="").geturl(),
        "at": notice.created_at,
        "unread": read_at is None or notice.created_at > read_at,
    }


@never_cache
@member_required
def notifications(request: Any) -> HttpResponse:
    """What the member gets by e-mail, which a POST changes; an admin sees the webhooks as well."""
    form = MailForm(request.POST) if request.method == "POST" else None
    if form and form.is_valid():
        services.choose(request.membership, form.cleaned_data["kinds"])
        messages.success(request, "Your choice is saved.")
        return redirect("notifications")
    return _page(request, form, status=422 if form else 200)


def _page(request: Any, form: MailForm | None = None, status: int = 200, **kwargs: Any) -> HttpResponse:
    """The page; `kwargs` may hold a `webhook_form`."""
    form = form or MailForm({"kinds": services.chosen(request.membership)})
    context = {"form": form, "webhook_form": WebhookForm(), "sends_mail": bool(settings.EMAIL_HOST)}
    context["secret"] = shown_once.take(request, "webhook")
    if can_admin(request.membership):
        context["webhooks"] = Webhook.objects.for_user(request.user)
    return render(request, "notifications/notifications.html", context | kwargs, status=status)


@require_POST
@member_required
def test_mail(request: Any) -> HttpResponse:
    """Sends the member a test."""
    done = f"A test goes to {request.user.email} within half a minute."
    attempt(request, lambda: outbox.send_test_mail(request.membership), done, Problem)
    return redirect("notifications")


@require_POST
@admin_required
def add_webhook(request: Any) -> HttpResponse:
    """Adds a webhook, whose secret the page of notifications then shows once."""
    form = WebhookForm(request.POST)
    if form.is_valid():
        try:
            _, secret = services.add(request.organisation, request.user, **form.cleaned_data)
        except services.NotificationError as error:
            form.add_error(error.field, str(error))
        else:
            shown_once.keep(request, "webhook", secret)
            return redirect("notifications")
    return _page(request, status=422, webhook_form=form)


def _webhook(request: Any, webhook_id: Any) -> Webhook:
    return get_object_or_404(Webhook.objects.for_user(request.user).select_related("organisation"), pk=webhook_id)


@require_POST
@admin_required
def remove_webhook(request: Any, webhook_id: Any) -> HttpResponse:
    """Ends a webhook."""
    webhook = _webhook(request, webhook_id)
    services.remove(webhook)
    messages.success(request, f"{webhook.url} is removed.")
    return redirect("notifications")


@require_POST
@admin_required
def test_webhook(request: Any, webhook_id: Any) -> HttpResponse:
    """Posts a test to a webhook."""
    webhook = _webhook(request, webhook_id)
    done = "A test is on its way; the log shows what came of it within half a minute."
    attempt(request, lambda: outbox.send_test_webhook(webhook), done, Problem)
    return redirect("deliveries")


@require_safe
@admin_required
def deliveries(request: Any) -> HttpResponse:
    """What was sent to whom, and what came of it, newest first."""
    rows = Delivery.objects.for_user(request.user).select_related("notice", "webhook", "membership__user")
    page = Paginator(rows, PAGE_SIZE).get_page(request.GET.get("page"))
    return render(request, "notifications/deliveries.html", {"page": page})


@require_POST
@admin_required
def send_again(request: Any, delivery_id: Any) -> HttpResponse:
    """Tries once more what was given up."""
    outbox.again(get_object_or_404(Delivery.objects.for_user(request.user), pk=delivery_id))
    messages.success(request, "It is tried once more within half a minute.")
    return redirect("deliveries")


@login_not_required
@csrf_exempt  # a mail program posts here by itself (RFC 8058); the signed address alone lets it do one thing
@never_cache
@require_http_methods(["GET", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """Asks whether e-mail shall end, and on a POST ends it. The signed address is enough."""
    membership_id = mail.unsubscribed(token)
    if membership_id is None:
        raise Http404
    if request.method == "POST":
        services.unsubscribe(membership_id)
    return render(request, "notifications/unsubscribe.html", {"done": request.method == "POST"})
