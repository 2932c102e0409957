"""A published report is read by a link without a login, until the link ends."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from workbench.audit.models import Action, Entry
from workbench.reports import services
from workbench.reports.models import Share


@pytest.fixture
def published(report, account):
    return services.publish(services.review(report, account, "Safe to promise."), account)


def _address(answer):
    return "/shared/" + answer.content.decode().split("/shared/")[1].split("/")[0] + "/"


@pytest.fixture
def link(browser, account, published):
    """The address of a link without a password."""
    return _address(browser(account).post(f"/reports/{published.id}/share/", {"days": 7}, follow=True))


def test_whoever_has_the_link_reads_the_report_and_nothing_else(client, link, published, done, account):
    answer = client.head(link)
    assert (answer.status_code, answer.content, answer["X-Robots-Tag"]) == (200, b"", "noindex, nofollow")
    assert Share.objects.get().views == 0, "a program that checks the link"
    answer = client.get(link)
    assert "Safe to promise." in answer.content.decode()
    assert "sandbox" in answer["Content-Security-Policy"]
    assert answer["Content-Disposition"].startswith("inline")
    assert "no-store" in answer["Cache-Control"]
    assert client.get(f"{link}?download")["Content-Disposition"].startswith("attachment")
    assert Share.objects.get().views == 2
    for address in (f"/reports/{published.id}/", f"/runs/{done.id}/result/"):
        assert client.get(address)["Location"].startswith("/login/")
    assert link.split("/")[2] not in str(Share.objects.values()), "the secret is not kept"
    type(account).objects.filter(pk=account.pk).update(name="")
    page = client.get(link).content.decode()
    assert (account.email in page, "by a member · reviewed on" in page) == (False, True)


def test_a_revoked_or_ended_link_does_not_work(browser, client, account, engineer, link, published):
    addresses = (f"/reports/{published.id}/share/", f"/shares/{Share.objects.get().id}/revoke/")
    assert [browser(engineer).post(address, {"days": 7}).status_code for address in addresses] == [403, 403]
    assert Share.objects.get().works
    assert client.get("/shared/guess/").status_code == 404
    Share.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert client.get(link).status_code == 404
    Share.objects.update(expires_at=timezone.now() + timedelta(days=1))
    assert client.get(link).status_code == 200
    browser(account).post(f"/shares/{Share.objects.get().id}/revoke/")
    answer = client.get(link)
    assert (answer.status_code, "does not work any more" in answer.content.decode()) == (404, True)
    text = list(Entry.objects.filter(action__startswith="report.share").order_by("id").values_list("action", flat=True))
    assert text == [Action.REPORT_SHARED, Action.SHARE_REVOKED]


def test_a_password_is_asked_for_once_and_guesses_are_counted(browser, account, published, settings):
    settings.LOGIN_ATTEMPTS = 3
    form = {"days": 7, "password": "an open secret"}
    client = browser(account)
    response = client.post(f"/reports/{published.id}/share/", form)
    assert response.status_code == 302, "loaded again it makes no second one"
    link = _address(client.get(f"/reports/{published.id}/"))
    reader, guesser = Client(), Client(REMOTE_ADDR="10.0.0.9")
    assert "Safe to promise" not in reader.get(link).content.decode()
    assert Share.objects.get().views == 0
    assert reader.post(link, {"password": "an open secret"}).status_code == 302
    assert "Safe to promise" in reader.get(link).content.decode()
    for _ in range(3):
        assert "not the password" in guesser.post(link, {"password": "a guess"}).content.decode()
    assert "Too many attempts" in guesser.post(link, {"password": "an open secret"}).content.decode()
    assert "an open secret" not in Share.objects.get().password


@pytest.mark.parametrize("state", ["draft", "reviewed"])
def test_what_is_not_published_cannot_be_shared(browser, account, report, state):
    if state == "reviewed":
        services.review(report, account, "")
    client = browser(account)
    assert "Links for readers" not in client.get(f"/reports/{report.id}/").content.decode()
    assert client.post(f"/reports/{report.id}/share/", {"days": 7}).status_code == 422
    with pytest.raises(services.ReportError, match=f"Only a published report can be shared; this one is {state}"):
        services.create_share(report, account, 7)
    assert not Share.objects.exists()
