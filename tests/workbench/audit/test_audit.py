"""Who did what is kept, in rows that nobody changes, and read by the admin of the organisation alone."""

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.test import Client

from workbench.accounts import services as accounts
from workbench.accounts import tokens
from workbench.audit import triggers
from workbench.audit.models import Action, Entry
from workbench.audit.services import record
from workbench.prices.services import add_price_book, price_book
from workbench.reports.services import publish, review


def _said(*skipped: str) -> list[tuple[str, str, str]]:
    rows = Entry.objects.exclude(action__in=skipped).order_by("id")
    return [(row.action, row.actor_email, row.subject) for row in rows]


def test_sign_ins_and_failed_ones_are_kept(client, engineer, organisation):
    known = {"username": engineer.email, "password": "wrong"}
    client.post("/login/", known, headers={"X-Request-ID": "r-1"})
    client.post("/login/", {"username": "hunter2-not-an-address", "password": "x"})
    client.post("/login/", known | {"password": "correct horse battery"})
    failed, unknown, done = Entry.objects.order_by("-id")[:3][::-1]
    assert (failed.action, failed.subject, failed.actor_email) == ("sign_in.failed", engineer.email, "")
    assert (failed.organisation, failed.address, failed.request_id) == (organisation, "127.0.0.1", "r-1")
    assert (unknown.organisation, unknown.subject) == (None, "an unknown email address")
    assert "hunter2" not in json.dumps([item.document for item in Entry.objects.all()])
    assert (done.action, done.actor_email, done.organisation) == ("sign_in.succeeded", engineer.email, organisation)


def test_members_tokens_and_prices_are_kept(browser, admin, engineer, organisation):
    client, member = browser(admin), engineer.memberships.get()
    client.post("/members/invite/", {"email": "new@voice.test", "role": "engineer"})
    client.post(f"/invitations/{organisation.invitations.get().id}/withdraw/")
    client.post(f"/members/{member.id}/role/", {"role": "account"})
    token, _ = tokens.issue(organisation, engineer, "build", "write")
    client.post(f"/tokens/{token.id}/revoke/")
    left, _ = tokens.issue(organisation, engineer, "nightly", "read")
    client.post(f"/members/{member.id}/remove/")
    add_price_book(organisation, admin, price_book(organisation).model_copy(update={"name": "Of the contract"}))
    assert _said("sign_in.succeeded", "organisation.created") == [
        ("member.invited", admin.email, "new@voice.test"),
        ("invitation.withdrawn", admin.email, "new@voice.test"),
        ("member.role_changed", admin.email, engineer.email),
        ("token.issued", engineer.email, str(token)),
        ("token.revoked", admin.email, str(token)),
        ("token.issued", engineer.email, str(left)),
        ("token.revoked", admin.email, str(left)),
        ("member.removed", admin.email, engineer.email),
        ("prices.changed", admin.email, str(price_book(organisation).name) + ", " + price_book(organisation).date),
    ]
    changed = Entry.objects.get(action=Action.MEMBER_ROLE_CHANGED)
    assert changed.details == {"before": "engineer", "after": "account"}
    assert Entry.objects.get(action=Action.PRICES_CHANGED).details["after"]["name"] == "Of the contract"
    own, _ = tokens.issue(organisation, admin, "build", "write")
    new = {"old_password": "correct horse battery", "new_password1": "a very long password", "revoke_tokens": "on"}
    client.post("/password/", new | {"new_password2": new["new_password1"]})
    assert _said()[-2:] == [("password.changed", admin.email, admin.email), ("token.revoked", admin.email, str(own))]
    _, secret = accounts.invite(organisation, admin, "other@voice.test", "account")
    Client().post(f"/invitations/{secret}/", {"name": "New", "password": "a very long password"})
    assert ("member.joined", "other@voice.test", "other@voice.test") in _said()
    with transaction.atomic():
        record(Action.LOGO_CHANGED, organisation)
        transaction.set_rollback(True)
    assert not Entry.objects.filter(action=Action.LOGO_CHANGED).exists(), "what is rolled back"


def test_reports_and_deletions_are_kept(browser, api, report, account, admin, done):
    workload = done.workload
    publish(review(report, account, ""), account)
    api(admin).delete(f"/api/v1/runs/{done.id}/artifacts/report/plan.json")
    browser(admin).post(f"/runs/{done.id}/delete/")
    browser(admin).post(f"/workloads/{workload.id}/delete/")
    browser(admin).post(f"/models/{workload.model_id}/delete/")
    kept = {action: (actor, subject) for action, actor, subject in _said()}
    assert kept["report.published"] == (account.email, report.title)
    assert kept["file.deleted"] == (admin.email, "plan.json")
    assert kept["run.deleted"] == (admin.email, f"run {done.id}")
    assert kept["workload.deleted"] == (admin.email, workload.name)
    assert kept["model.deleted"][0] == admin.email
    assert Entry.objects.get(action=Action.RUN_DELETED).details["published_reports"] == 1
    assert Entry.objects.get(action=Action.FILE_DELETED).token.startswith("kwb_")


def test_the_database_and_the_model_refuse_to_change_an_entry(organisation):
    triggers.create(connection)
    for statement in ("UPDATE audit_entry SET action = 'x'", "DELETE FROM audit_entry"):
        with pytest.raises(DatabaseError, match="audit entries are only added"), transaction.atomic():
            connection.cursor().execute(statement)
    entry = Entry.objects.first()
    for refused in (entry.save, entry.delete, Entry.objects.all().delete, lambda: Entry.objects.update(action="x")):
        with pytest.raises(TypeError, match="only added"):
            refused()
    assert Entry.objects.exists()


def test_entries_outlive_the_organisation_and_the_person(organisation, engineer):
    tokens.issue(organisation, engineer, "build", "write")
    engineer.delete()
    organisation.delete()
    assert ("token.issued", engineer.email) in [(action, actor) for action, actor, _ in _said()]


def test_the_page_filters_and_is_paged(browser, admin, account, organisation):
    for number in range(60):
        record(Action.TOKEN_ISSUED, organisation, f"token {number}", actor=account if number % 2 else admin)
    client = browser(admin)
    assert "Page 1 of 2" in client.get("/audit/").content.decode()
    page = client.get("/audit/", {"actor": "account@", "action": "token.issued"}).content.decode()
    assert (page.count("<tr>"), "token 59" in page, "token 58" in page) == (31, True, False)
    assert "No entry matches" in client.get("/audit/", {"until": "2020-01-01"}).content.decode()
    for first, last in (("0001-01-01", "9999-12-31"), ("2020-01-01", "2020-01-01")):
        assert client.get("/audit/", {"since": first, "until": last}).status_code == 200
    assert "token 59" in client.get("/audit/", {"since": "0001-01-01", "until": "9999-12-31"}).content.decode()
    assert client.get("/audit/", {"since": "no day"}).status_code == 422
    assert "“user” is no filter of this list" in client.get("/audit/", {"user": "account@"}).content.decode()
    assert "is no filter" not in client.get("/audit/", {"actor": "account@", "page": 1}).content.decode()
    assert browser(account).get("/audit/").status_code == 403


def test_the_export_is_paged_json_lines(api, admin, account, foreigner, organisation):
    for number in range(5):
        record(Action.TOKEN_ISSUED, organisation, f"token {number}", actor=admin)
    seen, after = [], 0
    client = api(admin, "read")
    while lines := client.get("/api/v1/audit", {"after": after, "limit": 3}).content.decode().splitlines():
        assert len(lines) <= 3
        seen += [json.loads(line) for line in lines]
        after = seen[-1]["id"]
    entries = Entry.objects.of(organisation).order_by("id")
    assert [item["id"] for item in seen] == list(entries.values_list("id", flat=True))
    assert {item["organisation"] for item in seen} == {str(organisation.id)}
    assert api(account).get("/api/v1/audit").status_code == 403
    assert "token 4" not in api(foreigner).get("/api/v1/audit").content.decode()
    whole = StringIO()
    call_command("export_audit", stdout=whole)
    assert len(whole.getvalue().splitlines()) == Entry.objects.count() > len(seen)
