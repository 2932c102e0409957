"""What happens is posted to webhooks: signed, at least once with the same id, tried again, and written down."""

import base64
import hashlib
import hmac
import json
import sys
from datetime import timedelta
from typing import get_args

import pytest
from django.db import transaction
from django.urls import clear_url_caches, reverse
from django.utils import timezone

from workbench.audit.models import Action, Entry
from workbench.notifications import delivering, outbox, signing
from workbench.notifications.api import PostedKind
from workbench.notifications.delivering import BACK_OFF, deliver_due
from workbench.notifications.models import POSTED, Delivery, Kind, Notice, Webhook
from workbench.reports import services as reports
from workbench.runs import state
from workers.documents.stages import STAGES, StageFailure
from workers.documents.worker_api import StageKey

pytestmark = pytest.mark.django_db


def _overdue():
    """Every wait is over."""
    Delivery.objects.update(next_at=timezone.now() - timedelta(seconds=1))


def _end(run, **result):
    """The last stage of a run is done."""
    key = StageKey(run_id=str(run.id), stage=STAGES[-1], attempt=1)
    type(run).objects.filter(pk=run.pk).update(state="running", stage=STAGES[-1], finished_at=None)
    assert state.advance(key, result)


def test_the_specifications_example_is_signed_as_it_says():
    """The example of the specification's libraries."""
    secret, message = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
    made = signing.headers(secret, message, 1614265330, b'{"test": 2432232314}')
    assert made == {
        "webhook-id": message,
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_run_that_ends_is_posted_and_signed(hook, receiver, done):
    _, secret = hook()
    _end(done, verdict="missed", headline="Missed: TTF64 p50 130 ms (limit 100 ms)")
    assert deliver_due() == 2
    told = {json.loads(body)["type"]: (headers, body) for headers, body in receiver.posted}
    assert set(told) == {Kind.RUN_FINISHED, Kind.RUN_MISSED}
    headers, body = told[Kind.RUN_MISSED]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
    assert abs(int(headers["webhook-timestamp"]) - timezone.now().timestamp()) < 60
    run = json.loads(body)["data"]["run"]
    assert (run["id"], run["verdict"]) == (str(done.id), "missed")
    assert run["sentence"] == "Missed: TTF64 p50 130 ms (limit 100 ms)"
    assert run["url"].endswith(f"/runs/{done.id}/")
    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}


def test_a_run_that_fails_in_the_worker_api_is_announced(hook, done, settings, monkeypatch):
    page = settings.PUBLIC_URL + reverse("run", args=[done.id])
    settings.ROOT_URLCONF = "workbench.worker_site.urls"
    monkeypatch.setitem(sys.modules, "workbench.urls", None)  # there it cannot be imported: it needs more applications
    clear_url_caches()
    hook(kinds=[Kind.RUN_FINISHED])
    type(done).objects.filter(pk=done.pk).update(state="running", stage="admit", finished_at=None)
    key = StageKey(run_id=str(done.id), stage="admit", attempt=1)
    assert state.fail(key, StageFailure(sentence="The model has no tokenizer."))
    run = Notice.objects.get().data["run"]
    assert (run["state"], run["sentence"]) == ("failed", "The model has no tokenizer.")
    assert run["url"] == page


def test_reports_are_announced_when_they_wait_and_when_they_are_published(hook, receiver, done, engineer, account):
    hook(kinds=[Kind.REPORT_READY, Kind.REPORT_PUBLISHED])
    report = reports.freeze(done, engineer)
    reports.publish(reports.review(report, account, ""), account)
    deliver_due()
    text = [json.loads(body) for _, body in receiver.posted]
    assert {item["type"] for item in text} == {Kind.REPORT_READY, Kind.REPORT_PUBLISHED}
    assert all(item["data"]["report"]["id"] == str(report.id) for item in text)
    assert all(item["data"]["report"]["url"].endswith(reverse("report", args=[report.id])) for item in text)


def test_where_nobody_asked_the_inbox_of_who_started_the_run_alone_is_told(hook, done, engineer):
    hook(kinds=[Kind.REPORT_READY])
    with transaction.atomic():
        _end(done, verdict="met")
        assert Notice.objects.count() == 1
        transaction.set_rollback(True)
    assert not Notice.objects.exists(), "what is rolled back is not announced"
    _end(done, verdict="missed")
    notice = Notice.objects.get()
    assert (notice.kind, notice.member.user) == (Kind.RUN_FINISHED, engineer)
    assert not Delivery.objects.exists()


def test_it_is_tried_again_with_the_same_id_and_body_until_it_is_given_up(hook, receiver, done):
    hook(kinds=[Kind.RUN_FINISHED])
    receiver.status = 500
    _end(done, verdict="met")
    for tried in range(len(BACK_OFF) + 1):
        before = timezone.now()
        assert deliver_due() == 1
        delivery = Delivery.objects.get()
        assert len(delivery.tries) == tried + 1
        if tried < len(BACK_OFF):
            assert delivery.state == "waiting"
            assert 0.85 * BACK_OFF[tried] < (delivery.next_at - before).total_seconds() < 1.15 * BACK_OFF[tried] + 5
            assert deliver_due() == 0, "not before its time"
        _overdue()
    assert delivery.state == "given_up"
    assert delivery.last["words"] == "Answered 500."
    assert deliver_due() == 0
    assert len({headers["webhook-id"] for headers, _ in receiver.posted}) == 1
    assert len({body for _, body in receiver.posted}) == 1


def test_a_sender_that_died_in_a_try_leaves_it_to_the_next(hook, receiver):
    webhook, _ = hook()
    outbox.send_test_webhook(webhook)
    died = list(delivering._claim())
    assert len(died) == 1
    assert deliver_due() == 0, "it may still be at it"
    _overdue()
    assert deliver_due() == 1
    assert receiver.posted[0][0]["webhook-id"] == died[0].notice.message_id


def test_what_is_gone_is_given_up_until_an_admin_has_one_more_try_made(browser, admin, hook, receiver):
    receiver.status = 410
    outbox.send_test_webhook(hook()[0])
    deliver_due()
    delivery, client = Delivery.objects.get(), browser(admin)
    assert delivery.state == "given_up"
    assert "Try again" in client.get("/notifications/log/").content.decode()
    receiver.status = 200
    client.post(f"/notifications/log/{delivery.pk}/again/")
    deliver_due()
    delivery.refresh_from_db()
    assert (delivery.state, len(delivery.tries)) == ("delivered", 2)
    client.post(f"/notifications/log/{delivery.pk}/again/")
    assert deliver_due() == 0, "what has arrived is not sent again"


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_is_not_followed(hook, receiver, status):
    receiver.status = status
    outbox.send_test_webhook(hook()[0])
    deliver_due()
    assert len(receiver.posted) == 1
    assert Delivery.objects.get().last["words"] == f"Answered {status}; redirects are not followed."


def test_an_organisation_with_much_to_send_does_not_hold_up_another(hook, receiver, foreigner, monkeypatch):
    monkeypatch.setattr(outbox, "MAX_TESTS", 40)
    webhook, _ = hook()
    for _ in range(40):
        outbox.send_test_webhook(webhook)
    other = foreigner.memberships.get().organisation
    theirs = Webhook.objects.create(organisation=other, url=webhook.url, kinds=[], secret=webhook.secret)
    outbox.send_test_webhook(theirs)
    claimed = list(delivering._claim())
    assert theirs.pk in {item.webhook_id for item in claimed}
    assert len(claimed) <= delivering.AT_ONCE


def test_the_secret_is_encrypted_and_gone_with_the_webhook(hook, organisation, settings):
    webhook, secret = hook()
    assert secret not in str(Webhook.objects.values())
    outbox.send_test_webhook(webhook)
    settings.SECRET_KEY = "another"
    deliver_due()
    delivery = Delivery.objects.get()
    assert (delivery.state, "another SECRET_KEY" in delivery.last["words"]) == ("given_up", True)
    Notice.objects.update(created_at=timezone.now() - timedelta(days=settings.EVENT_DAYS, seconds=1))
    delivering.prune()
    assert not Delivery.objects.exists(), "old notices are removed"
    outbox.send_test_webhook(webhook)
    organisation.delete()
    assert not Webhook.objects.exists()
    assert not Delivery.objects.exists()


def test_an_admin_adds_tests_and_removes_and_others_do_not(browser, admin, engineer, foreigner, receiver):
    client = browser(admin)
    form = {"url": receiver.url, "kinds": ["run.missed"]}
    assert client.post("/notifications/webhooks/", form).status_code == 302, "loaded again it adds no second one"
    assert "whsec_" in client.get("/notifications/").content.decode()
    assert "whsec_" not in client.get("/notifications/").content.decode()
    hook = Webhook.objects.get()
    assert hook.kinds == ["run.missed"]
    client.post(f"/notifications/webhooks/{hook.pk}/test/")
    deliver_due()
    log = client.get("/notifications/log/").content.decode()
    assert all(words in log for words in ("Delivered", "Answered 200."))
    for other, expected in ((engineer, 403), (foreigner, 404)):
        assert browser(other).post(f"/notifications/webhooks/{hook.pk}/remove/").status_code == expected
    assert browser(engineer).get("/notifications/log/").status_code == 403
    assert "whsec" not in browser(engineer).get("/notifications/").content.decode()
    client.post(f"/notifications/webhooks/{hook.pk}/remove/")
    assert not Webhook.objects.exists()
    text = Entry.objects.filter(action__startswith="webhook").order_by("id").values_list("action", flat=True)
    assert list(text) == [Action.WEBHOOK_ADDED, Action.WEBHOOK_REMOVED]


def test_the_api_does_the_same(api, admin, engineer, receiver):
    client = api(admin)
    body = {"url": receiver.url, "kinds": ["run.finished"]}
    made = client.post("/api/v1/webhooks", body)
    assert made.status_code == 201
    assert made.json()["secret"].startswith("whsec_")
    address = f"/api/v1/webhooks/{made.json()['id']}"
    assert "secret" not in client.get("/api/v1/webhooks").json()["items"][0]
    assert client.post(f"{address}/test").status_code == 202
    deliver_due()
    result = client.get("/api/v1/deliveries").json()["items"][0]
    assert (result["state"], result["kind"], result["next_at"]) == ("delivered", "test", None)
    assert result["tries"][0]["words"] == "Answered 200."
    for wrong in ({"url": "ftp://x"}, body | {"kinds": ["test"]}, body | {"kinds": []}):
        assert client.post("/api/v1/webhooks", wrong).status_code == 422
    assert set(get_args(PostedKind)) == {kind for kind, _ in POSTED}, "the API takes what the page offers"
    assert api(engineer).get("/api/v1/webhooks").status_code == 403
    answers = [client.post(f"{address}/test") for _ in range(outbox.MAX_TESTS)]
    assert [answer.status_code for answer in answers] == [202] * (outbox.MAX_TESTS - 1) + [429]
    assert "tests were sent there within an hour" in answers[-1].json()["detail"]
    assert client.delete(address).status_code == 204
