"""The second factor: set up, asked for at login, kept encrypted, lost and reset."""

import re
import time
from types import SimpleNamespace

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client

from tests.workbench.conftest import PASSWORD
from workbench.audit.models import Entry

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def now(monkeypatch):
    """The app's clock stands still: a half minute may end between a code and its use."""
    result = time.time()
    monkeypatch.setattr(auth, "time", SimpleNamespace(time=lambda: result))


def _code(secret, step=0):
    return auth.format_hotp_value(auth.hotp_value(secret, int(auth.time.time()) // 30 + step))


def _confirm(client):
    return client.post("/login/again/", {"password": PASSWORD})


def _log_in(email, client=None):
    client = client or Client()
    return client, client.post("/login/?next=/members/", {"username": email, "password": PASSWORD})


@pytest.fixture
def protected(browser, engineer):
    """The secret of the engineer's authenticator app, and the recovery codes that were shown."""
    client = browser(engineer)
    _confirm(client)
    secret = re.search(r"<code>([A-Z2-7]{32})</code>", client.get("/security/app/").content.decode())[1]
    done = client.post("/security/app/", {"code": _code(secret, -1)}, follow=True)
    codes = re.findall(r"<code>(\d{8})</code>", done.content.decode())
    assert len(codes) == 10
    return secret, codes


def test_the_password_alone_does_not_log_in_and_a_wrong_code_is_in_the_audit_log(protected, engineer, organisation):
    client, response = _log_in(engineer.email)
    assert response["Location"] == "/login/code/"
    assert client.get("/members/").status_code == 302
    assert client.get("/api/v1/me").status_code == 401
    client.post("/login/code/", {"code": "000000"})
    failed = Entry.objects.filter(action="sign_in.failed").get()
    assert (failed.organisation, failed.subject, failed.details) == (organisation, engineer.email, {"kind": "totp"})
    response = client.post("/login/code/", {"code": _code(protected[0])})
    assert response["Location"] == "/members/"
    assert client.get("/members/").status_code == 200


def test_a_recovery_code_works_once_and_an_inactive_person_stays_outside(protected, engineer):
    first, _ = _log_in(engineer.email)
    assert first.post("/login/code/", {"code": protected[1][0]}).status_code == 302
    second, _ = _log_in(engineer.email)
    assert second.post("/login/code/", {"code": protected[1][0]}).status_code == 200
    assert second.post("/login/code/", {"code": protected[1][1]}).status_code == 302
    client, _ = _log_in(engineer.email)
    engineer.is_active = False
    engineer.save()
    client.post("/login/code/", {"code": _code(protected[0])})
    assert client.get("/members/").status_code == 302


def test_codes_cannot_be_guessed(protected, engineer):
    for _ in range(5):
        client, _ = _log_in(engineer.email)
        client.post("/login/code/", {"code": "000000"})
    client, _ = _log_in(engineer.email)
    refused = client.post("/login/code/", {"code": _code(protected[0])})
    assert (refused.status_code, b"Too many failed login attempts" in refused.content) == (200, True)


def test_recovery_codes_are_shown_once_and_go_with_the_app(protected, browser, engineer):
    client = browser(engineer)
    _confirm(client)
    page = client.get("/security/codes/").content.decode()
    assert not [code for code in protected[1] if code in page]
    again = client.post("/security/codes/new/", follow=True).content.decode()
    assert len(re.findall(r"<code>(\d{8})</code>", again)) == 10
    _confirm(client)
    assert client.post("/security/app/remove/").status_code == 302
    assert not Authenticator.objects.exists()
    assert _log_in(engineer.email)[1]["Location"] == "/members/"


def test_secrets_lie_encrypted_and_end_with_the_secret_key(protected, engineer, settings):
    secret, codes = protected
    stored = [str(item.data) for item in Authenticator.objects.filter(user=engineer)]
    assert len(stored) == 2
    assert secret not in "".join(stored)
    assert all("gAAAA" in data for data in stored), "Fernet tokens"
    settings.SECRET_KEY = "another"
    for code in (_code(secret), codes[0]):
        cache.clear()
        client, _ = _log_in(engineer.email)
        assert client.post("/login/code/", {"code": code}).status_code == 200


def test_an_operator_resets_a_lost_factor_and_the_audit_log_keeps_it(protected, engineer, capsys):
    call_command("reset_second_factor", engineer.email.upper())
    assert f"Removed 2 from {engineer.email}" in capsys.readouterr().out
    assert _log_in(engineer.email)[1]["Location"] == "/members/"
    with pytest.raises(CommandError, match=r"no login nobody@voice\.test"):
        call_command("reset_second_factor", "nobody@voice.test")
    entries = Entry.objects.filter(action__startswith="second_factor", details__kind="totp").order_by("id")
    assert [(row.action, row.actor_email, row.subject) for row in entries] == [
        ("second_factor.added", engineer.email, engineer.email),
        ("second_factor.removed", "", engineer.email),
    ]


def test_the_brake_on_passwords_stays(protected, engineer, settings):
    settings.LOGIN_ATTEMPTS = 1
    client = Client()
    client.post("/login/", {"username": engineer.email, "password": "wrong"})
    assert b"Too many failed logins" in _log_in(engineer.email, client)[1].content


def test_nobody_registers_through_the_library_and_a_change_asks_for_the_password(client, browser, engineer, account):
    for page in ("/signup/", "/accounts/signup/", "/login/passkey/"):
        assert client.get(page).status_code in (302, 404)
    assert client.get("/login/code/")["Location"] == "/login/"
    assert client.post("/login/passkey/", {"credential": "{}"})["Location"] == "/login/"
    client = browser(engineer)
    for page in ("/security/app/", "/security/passkeys/add/"):
        assert client.get(page)["Location"].startswith("/login/again/")
    assert b"ncorrect" in client.post("/login/again/", {"password": "wrong"}).content
    assert client.get("/security/app/").status_code == 302
    key = Authenticator.objects.create(user=account, type="webauthn", data={"name": "key", "credential": {}})
    _confirm(client)
    assert client.post(f"/security/passkeys/{key.pk}/remove/").status_code == 404
    assert Authenticator.objects.filter(pk=key.pk).exists()


def test_a_code_works_once_as_long_as_it_is_valid(protected, engineer):
    """It is used again when django-allauth has forgotten that it was used; that of the set-up is used already."""
    secret, _ = protected
    client, _ = _log_in(engineer.email)
    assert b"ncorrect code" in client.post("/login/code/", {"code": _code(secret, -1)}).content
    assert client.post("/login/code/", {"code": _code(secret)}).status_code == 302
    cache.delete(f"allauth.mfa.totp.used?user={engineer.pk}&code={_code(secret)}")
    other, _ = _log_in(engineer.email)
    assert b"ncorrect code" in other.post("/login/code/", {"code": _code(secret)}).content
    assert other.get("/members/").status_code == 302
