"""Every page of the site, opened by whom it is not for; and what each page may load and run."""

import re
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from tests import sample_bring_up
from workbench.accounts import services as accounts
from workbench.accounts import tokens
from workbench.comments import services as comments
from workbench.notifications import outbox
from workbench.notifications import services as notifications
from workbench.notifications.mail import unsubscribe_address
from workbench.prices.services import add_price_book
from workbench.reports import services as reports
from workbench.runs.models import Run
from workbench.runs.views.runs import TIMELINES
from workers.documents.prices import default_price_book

pytestmark = pytest.mark.django_db
NAMES = "login account_login invitation shared shared-file api-docs api-docs-part api-docs-schemas unsubscribe session"
PUBLIC = set(NAMES.split())
OF_NOBODY = {"kernel", "mfa_remove_webauthn"}
"""Pages with parameters about what belongs to no organisation: the docs, and a person's own keys."""
INLINE = re.compile(
    r"<script(?![^>]*\b(?:src=|type=\"application/json\"))|\son\w+\s*=\s*[\"']|javascript:", re.IGNORECASE
)
CLOCK = re.compile(r"\b\d\d:\d\d(?::\d\d)?\b(?: UTC)?")
DATETIME = re.compile(r'datetime="[^"]*"')


def _pages() -> dict[str, dict[str, Any]]:
    """Names of all HTML addresses, with the converters of their parameters."""
    result: dict[str, dict[str, Any]] = {}

    def walk(patterns: list[URLPattern | URLResolver]) -> None:
        for pattern in patterns:
            if isinstance(pattern, URLResolver):
                if pattern.namespace is None:
                    walk(pattern.url_patterns)
            elif pattern.name:
                result[pattern.name] = pattern.pattern.converters

    walk(get_resolver().url_patterns)
    return result


PAGES = _pages()
OF_OBJECTS = sorted(name for name, parameters in PAGES.items() if parameters and name not in PUBLIC | OF_NOBODY)


@pytest.fixture
def addresses(done, organisation, admin, engineer):
    """The address of every page, about objects of `organisation`."""
    invitation, secret = accounts.invite(organisation, admin, "new@voice.test", "engineer")
    report = reports.publish(reports.review(reports.freeze(done, engineer), admin, ""), admin)
    webhook, _ = notifications.add(organisation, admin, "https://example.com/", ["run.finished"])
    outbox.send_test_webhook(webhook)
    values = {
        "run_id": done.id,
        "workload_id": done.workload_id,
        "model_id": done.workload.model_id,
        "report_id": report.id,
        "share_id": reports.create_share(report, admin, 7)[0].id,
        "membership_id": engineer.memberships.get().id,
        "invitation_id": invitation.id,
        "webhook_id": webhook.id,
        "delivery_id": webhook.deliveries.get().id,
        "token": unsubscribe_address(engineer.memberships.get().id).rstrip("/").rpartition("/")[2],
        "bring_up_id": sample_bring_up.row(organisation, engineer).id,
        "token_id": tokens.issue(organisation, engineer, "t", "read")[0].id,
        "sha256": done.artifacts.get(name="report.html").sha256,
        "secret": secret,
        "comment_id": comments.add(report, engineer, "x").pk,
        "view_id": admin.saved_views.create(name="met", query="state=met").pk,
        "pk": 0,
        "name": "megakernel",
        "file": "report.html",
    }
    report_file = done.artifacts.get(name="report.html")
    for stage, file in TIMELINES.values():
        report_file.pk, report_file.stage, report_file.name = None, stage, file
        report_file.save()
    result = {name: reverse(name, kwargs={key: values[key] for key in keys}) for name, keys in PAGES.items()}
    return result | {"api-docs-part": reverse("api-docs-part", args=["runs"])}


def _open(client: Client, address: str) -> Any:
    """The page's answer; what it changed is undone."""
    with transaction.atomic():
        response = client.get(address)
        response = client.post(address) if response.status_code == 405 else response
        transaction.set_rollback(True)
    return response


def test_a_foreign_object_is_not_found_and_nobody_sees_a_page_without_a_login(
    browser, addresses, foreigner, admin, client
):
    stranger, own = browser(foreigner), browser(admin)
    for name in OF_OBJECTS:
        assert _open(stranger, addresses[name]).status_code == 404, name
        assert _open(own, addresses[name]).status_code != 404, f"its own admin finds {name}"
    for name in sorted(set(PAGES) - PUBLIC):
        response = _open(client, addresses[name])
        assert response.status_code == 302, name
        assert response["Location"].startswith("/login/"), name


def test_every_page_confines_itself(browser, addresses, admin):
    client = browser(admin)
    for name in sorted(set(PAGES) - {"logout"}):
        with transaction.atomic():
            _confines_itself(name, client.get(addresses[name]))
            transaction.set_rollback(True)


def _confines_itself(name: str, response: Any) -> None:
    policy = response["Content-Security-Policy"]
    assert "default-src 'self'" in policy or "sandbox" in policy, name
    assert "'unsafe-eval'" not in policy, name
    assert response["X-Content-Type-Options"] == "nosniff", name
    assert response["X-Frame-Options"] == "DENY", name
    assert response["Referrer-Policy"] == "same-origin", name
    assert {"private", "no-store"} & set(response["Cache-Control"].replace(",", " ").split()), name
    html = response.get("Content-Type", "").startswith("text/html") and not response.streaming
    if html and "sandbox" not in policy:
        assert not INLINE.findall(response.content.decode()), name
        loaded = r"<(?!a\s)[^>]*\s(?:src|href)=\"(?:https?:)?//"
        assert not re.findall(loaded, response.content.decode()), f"{name}: only people follow links to other sites"
        ids = re.findall(r"\sid=\"([^\"]+)\"", response.content.decode())
        assert sorted(ids) == sorted(set(ids)), f"{name}: a label belongs to one control"


def _shown(client: Client, addresses: dict[str, str]) -> dict[str, str]:
    """The HTML of every page of the site that opens, by name."""
    opened = {name: client.get(addresses[name]) for name in sorted(set(PAGES) - {"logout"})}
    whole = {name: page for name, page in opened.items() if page.status_code == 200 and not page.streaming}
    return {name: page.content.decode() for name, page in whole.items() if b"<main " in page.content}


def test_every_time_says_that_it_is_utc(browser, addresses, admin, engineer):
    engineer.tokens.update(last_used_at=timezone.now())
    Run.objects.get().events.create(kind="begun")
    add_price_book(admin.memberships.get().organisation, admin, default_price_book())
    shown = _shown(browser(admin), addresses)
    times = {name: CLOCK.findall(DATETIME.sub("", html)) for name, html in shown.items()}
    told = ("report", "prices", "workload", "run", "run-result", "tokens", "members", "audit-log", "compare", "model")
    assert all(times[name] for name in told), times
    assert not {name: found for name, found in times.items() if not all(item.endswith(" UTC") for item in found)}


def test_a_form_of_another_site_is_refused(engineer):
    client = Client(enforce_csrf_checks=True)
    client.force_login(engineer)
    refused = client.post("/tokens/", {"name": "stolen", "scope": "write"})
    assert (refused.status_code, "This form is out of date" in refused.content.decode()) == (403, True)
    assert not engineer.tokens.exists()
