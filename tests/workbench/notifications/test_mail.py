"""A member gets by e-mail what they chose, until they end it."""

import re

import pytest
from django.core import mail as django_mail
from django.test import Client

from workbench.accounts import services as accounts
from workbench.notifications import mail, outbox, services
from workbench.notifications.delivering import deliver_due
from workbench.notifications.models import Delivery, Kind, Subscription
from workbench.reports import services as reports

pytestmark = pytest.mark.django_db


@pytest.fixture
def membership(account, organisation):
    return account.memberships.get(organisation=organisation)


def test_each_member_chooses_and_the_message_goes_over_the_wire(browser, account, done, engineer, mailbox):
    browser(account).post("/notifications/", {"kinds": [Kind.REPORT_READY]})
    report = reports.freeze(done, engineer)
    assert deliver_due() == 1
    (message,) = mailbox
    assert message["To"] == account.email
    assert message["Subject"].strip() == f"To review: {report.title} · Kernel Workbench"
    assert f"/reports/{report.id}/" in message.get_content()
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert Delivery.objects.get().last["words"] == "Handed to the mail server."


def test_who_gets_every_end_gets_one_message_of_a_missed_run(membership, engineer, organisation):
    run = {"state": "done", "workload": "Voice\nagent", "model": "m", "gpu_class": "h200", "sentence": "s", "url": "u"}
    services.choose(membership, [Kind.RUN_FINISHED, Kind.RUN_MISSED])
    services.choose(engineer.memberships.get(), [Kind.RUN_MISSED])
    for kind in (Kind.RUN_FINISHED, Kind.RUN_MISSED):
        outbox.announce(organisation.pk, kind, lambda: {"run": run | {"verdict_words": "Missed"}})
    deliver_due()
    receivers = sorted(to for message in django_mail.outbox for to in message.to)
    assert receivers == ["account@voice.test", engineer.email]
    assert {message.subject for message in django_mail.outbox} == {"Missed: Voice agent · Kernel Workbench"}


def test_the_link_in_the_message_ends_it_without_a_login(membership, mailbox):
    services.choose(membership, [Kind.RUN_FINISHED])
    outbox.send_test_mail(membership)
    deliver_due()
    address = re.search(r"/unsubscribe/\S+", mailbox[0].get_content())[0]
    client = Client(enforce_csrf_checks=True)
    assert "Get no more e-mail?" in client.get(address).content.decode()
    assert services.chosen(membership) == ["run.finished"], "a program that follows links ends nothing"
    assert "no more e-mail" in client.post(address, {"List-Unsubscribe": "One-Click"}).content.decode()
    assert services.chosen(membership) == []
    assert client.get(address[:-3] + "x/").status_code == 404


def test_a_mail_server_that_is_down_is_tried_again(membership, settings):
    settings.EMAIL_BACKEND, settings.EMAIL_PORT = "django.core.mail.backends.smtp.EmailBackend", 1
    settings.EMAIL_HOST = "127.0.0.1"
    outbox.send_test_mail(membership)
    assert deliver_due() == 1
    delivery = Delivery.objects.get()
    assert (delivery.state, "took no message" in delivery.last["words"]) == ("waiting", True)
    first, second = mail.message(delivery), mail.message(delivery)
    assert first.extra_headers["Message-ID"] == second.extra_headers["Message-ID"]


def test_tests_of_a_person_are_limited(browser, engineer):
    client = browser(engineer)
    for _ in range(outbox.MAX_TESTS):
        assert "A test goes to" in client.post("/notifications/test/", follow=True).content.decode()
    assert "5 tests were sent there within an hour" in client.post("/notifications/test/", follow=True).content.decode()
    assert Delivery.objects.count() == outbox.MAX_TESTS


def test_a_message_that_cannot_be_made_holds_up_no_other_and_who_left_gets_none(membership, organisation, mailbox):
    services.choose(membership, [Kind.RUN_FINISHED])
    outbox.announce(organisation.pk, Kind.RUN_FINISHED, lambda: {"of": "another version"})
    outbox.send_test_mail(membership)
    assert deliver_due() == 2
    assert len(mailbox) == 1
    assert sorted(Delivery.objects.values_list("state", flat=True)) == ["delivered", "given_up"]
    outbox.send_test_mail(membership)
    accounts.remove(membership)
    assert deliver_due() == 0
    assert not Subscription.objects.exists()
    assert not Delivery.objects.exists()
