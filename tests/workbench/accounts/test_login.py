"""Login by email, the brake on guessing, and the first login of an installation."""

import json

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from workbench.accounts import tokens
from workbench.accounts.models import User

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


def _log_in(client, email, password=PASSWORD, **extra):
    return client.post("/login/", {"username": email, "password": password}, **extra)


def test_the_email_is_the_login_in_any_case_and_leads_to_no_other_site(client, engineer):
    assert _log_in(client, engineer.email.upper()).status_code == 302
    assert client.get("/members/").status_code == 200
    client.post("/logout/")
    assert client.get("/members/").status_code == 302
    response = client.post("/login/?next=//evil.test/", {"username": engineer.email, "password": PASSWORD})
    assert response["Location"] == "/"
    assert _log_in(Client(enforce_csrf_checks=True), engineer.email).status_code == 403


def test_guessing_is_stopped_where_it_comes_from_even_with_the_right_password(client, engineer, settings):
    settings.LOGIN_ATTEMPTS = 3
    for _ in range(5):
        _log_in(Client(), engineer.email, "wrong", REMOTE_ADDR="192.0.2.1")
    assert _log_in(client, engineer.email).status_code == 302, "its owner is not locked out"
    for _ in range(3):
        assert b"Too many" not in _log_in(Client(), engineer.email, "wrong").content
    assert b"Too many failed logins; try again in 15 minutes." in _log_in(Client(), engineer.email).content


def test_one_address_cannot_try_many_people(client, engineer, settings):
    settings.LOGIN_ATTEMPTS = 1
    for number in range(5):
        _log_in(client, f"somebody{number}@voice.test", "wrong")
    assert b"Too many" in _log_in(client, engineer.email).content


def test_a_success_forgets_the_failures(client, engineer, settings):
    settings.LOGIN_ATTEMPTS = 3
    for _ in range(3):
        _log_in(client, engineer.email, "wrong")
        assert _log_in(client, engineer.email).status_code == 302


def _change_password(client, **kwargs):
    new = {"new_password1": "another long phrase", "new_password2": "another long phrase"}
    return client.post("/password/", {"old_password": PASSWORD} | new | kwargs)


def test_the_password_is_changed_by_who_knows_it_and_ends_the_other_sessions(browser, engineer):
    here, elsewhere = browser(engineer), browser(engineer)
    _change_password(here, old_password="wrong")
    assert User.objects.get(pk=engineer.pk).check_password(PASSWORD)
    assert _change_password(here).status_code == 302
    assert User.objects.get(pk=engineer.pk).check_password("another long phrase")
    assert (here.get("/members/").status_code, elsewhere.get("/members/").status_code) == (200, 302)


def test_create_login_prints_a_login_that_works_and_keeps_to_it(client, settings, tmp_path, capsys):
    settings.WORKBENCH_DATA = tmp_path
    call_command("create_login", "--token", "--json")
    first = json.loads(capsys.readouterr().out)
    assert _log_in(client, first["email"], first["password"]).status_code == 302
    me = Client(headers={"Authorization": f"Bearer {first['token']}"}).get("/api/v1/me").json()
    assert (me["role"], me["scope"]) == ("admin", "write")
    call_command("create_login", "--json")
    assert json.loads(capsys.readouterr().out) == {"email": first["email"], "password": first["password"]}
    assert User.objects.count() == 1
    other = ("create_login", "--json", "--email", "Bea@other.test", "--organisation", "Other")
    call_command(*other)
    second = json.loads(capsys.readouterr().out)
    assert second["password"] != first["password"], "another organisation's admin has a password of their own"
    call_command(*other)
    assert json.loads(capsys.readouterr().out) == second
    for kept in tmp_path.glob("first_password*"):
        assert kept.stat().st_mode & 0o077 == 0
    with pytest.raises(CommandError, match="--organisation: spaces alone are not enough"):
        call_command("create_login", "--organisation", "  ")


def test_an_office_that_logs_in_is_not_slowed_and_an_account_that_does_so_all_the_time_is(
    make_user, settings, engineer, foreigner
):
    settings.LOGIN_ATTEMPTS = 1
    for number in range(7):
        person = make_user(f"colleague{number}@voice.test")
        assert _log_in(Client(), person.email).status_code == 302
    answers = [Client().post("/login/", {"username": engineer.email, "password": PASSWORD}) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [302] * 10 + [200]
    assert "This account logs in too often" in answers[-1].content.decode()
    assert Client().post("/login/", {"username": foreigner.email, "password": PASSWORD}).status_code == 302


def test_a_login_without_a_password_forgets_no_failures(client, engineer, settings):
    settings.LOGIN_ATTEMPTS = 2
    for _ in range(2):
        _log_in(client, engineer.email, "wrong")
        _log_in(client, engineer.email, "")
    assert b"Too many" in _log_in(client, engineer.email).content


def test_many_addresses_cannot_try_one_account(client, engineer, settings):
    settings.LOGIN_ATTEMPTS = 1
    assert _log_in(client, engineer.email, REMOTE_ADDR="192.0.2.200").status_code == 302
    for number in range(10):
        _log_in(Client(), engineer.email, "wrong", REMOTE_ADDR=f"192.0.2.{number}")
    assert b"Too many" in _log_in(Client(), engineer.email, REMOTE_ADDR="192.0.2.100").content
    known = _log_in(Client(), engineer.email, REMOTE_ADDR="192.0.2.200")
    assert known.status_code == 302, "who logged in from there before is not locked out by strangers"


@pytest.mark.parametrize(("asked", "left"), [({}, 1), ({"revoke_tokens": "on"}, 0)])
def test_a_new_password_revokes_the_tokens_if_asked(browser, organisation, engineer, account, asked, left):
    tokens.issue(organisation, engineer, "CI", "write")
    tokens.issue(organisation, account, "somebody else's", "write")
    _change_password(browser(engineer), **asked)
    assert engineer.tokens.filter(revoked_at=None).count() == left
    assert account.tokens.filter(revoked_at=None).count() == 1
