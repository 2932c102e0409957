"""Comments on runs and reports, the members that they mention, and the inbox."""

from datetime import timedelta

import pytest
from django.core import mail
from django.utils import timezone

from workbench.accounts.models import User
from workbench.api.quota import used_bytes
from workbench.audit.models import Entry
from workbench.comments import services as comments
from workbench.comments.models import Comment
from workbench.notifications import services as notifications
from workbench.notifications.delivering import deliver_due
from workbench.notifications.models import Delivery, Kind, Notice
from workbench.reports import services as reports


def test_a_comment_is_read_and_mentions_reach_inbox_and_mail(
    browser, organisation, engineer, account, admin, foreigner, done
):
    notifications.choose(account.memberships.get(), [Kind.MENTIONED])
    before = used_bytes(organisation)
    text = "@account, is <b>this</b> safe to promise?\nhttps://voice.test/x"
    answer = browser(engineer).post(f"/runs/{done.id}/comments/", {"text": text}, follow=True)
    comment = Comment.objects.get()
    assert answer.redirect_chain[0][0] == f"/runs/{done.id}/#comment-{comment.pk}"
    page = answer.content.decode()
    assert '@account, is &lt;b&gt;this&lt;/b&gt; safe to promise?<br><a href="https://voice.test/x"' in page
    assert used_bytes(organisation) > before
    assert [notice.member.user for notice in Notice.objects.filter(kind=Kind.MENTIONED)] == [account]
    deliver_due()
    assert [message.to for message in mail.outbox] == [[account.email]]
    assert mail.outbox[0].subject == f"Engineer mentions you: {done.workload.name} · Kernel Workbench"
    client = browser(account)
    inbox = client.get("/inbox/")
    assert inbox.context["rows"][0]["address"] == f"/runs/{done.id}/#comment-{comment.pk}"
    assert inbox.context["unread"] == 1
    client.post("/inbox/")
    assert client.get("/inbox/").context["unread"] == 0
    assert browser(admin).get("/inbox/").context["unread"] == 0
    assert browser(foreigner).post(f"/runs/{done.id}/comments/", {"text": "x"}).status_code == 404
    assert not Delivery.objects.exclude(membership__user=account).exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("@Account see", True),
        ("(@ACCOUNT)", True),
        ("ask @account@voice.test.", True),
        ("@accountant", False),
        ("mail me@account", False),
        ("account", False),
        ("@account.other", False),
    ],
)
def test_who_is_mentioned(browser, engineer, account, done, text, told):
    assert account.email == "account@voice.test"
    browser(engineer).post(f"/runs/{done.id}/comments/", {"text": text})
    assert Notice.objects.filter(kind=Kind.MENTIONED, member__user=account).exists() == told


def test_a_comment_is_deleted_and_not_shown_to_customers(
    browser, client, organisation, engineer, account, admin, report, monkeypatch
):
    for text in ("Between us.", "@account, a second thought."):
        browser(engineer).post(f"/reports/{report.id}/comments/", {"text": text})
    assert browser(engineer).post(f"/reports/{report.id}/comments/", {"text": " "}).status_code == 302
    published = reports.publish(reports.review(report, account, ""), account)
    assert "Between us." in browser(account).get(f"/reports/{report.id}/").content.decode()
    _, secret = reports.create_share(published, account, 7)
    assert "Between us." not in client.get(f"/shared/{secret}/").content.decode()
    first, second = Comment.objects.all()
    assert browser(account).post(f"/comments/{first.pk}/delete/").status_code == 403
    assert browser(engineer).post(f"/comments/{first.pk}/delete/")["Location"] == f"/reports/{report.id}/"
    assert browser(admin).post(f"/comments/{second.pk}/delete/").status_code == 302
    assert not Comment.objects.exists()
    assert not Notice.objects.filter(kind=Kind.MENTIONED).exists(), "nor is it left in an inbox"
    entry = Entry.objects.filter(action="comment.deleted").latest("id")
    assert (entry.actor, entry.details) == (admin, {"author": "Engineer", "report": str(report.id)})
    monkeypatch.setattr(comments, "MAX_COMMENTS", 1)
    for text in ("One.", "Too many."):
        answer = browser(engineer).post(f"/reports/{report.id}/comments/", {"text": text}, follow=True)
    assert "The comment was not kept. This report has 1 comments, which is the most." in answer.content.decode()
    assert [comment.text for comment in Comment.objects.all()] == ["One."]
    assert User.objects.filter(pk=engineer.pk).exists()


def test_the_inbox_has_what_concerns_a_member_once(browser, engineer, account, done):
    reports.freeze(done, engineer)
    rows = browser(account).get("/inbox/").context["rows"]
    assert [row["subject"] for row in rows] == [f"To review: {done.workload.name} on {done.workload.model.name}"]
    account.memberships.update(inbox_read_at=timezone.now() + timedelta(seconds=1))
    assert [row["unread"] for row in browser(account).get("/inbox/").context["rows"]] == [False]
