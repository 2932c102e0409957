"""API tokens: shown once, kept as a keyed hash, of one organisation, revocable, and ending on a chosen day."""

import hashlib
import json
import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from workbench.accounts import tokens
from workbench.accounts.models import ApiToken, Membership, Role
from workbench.accounts.services import AccountError

pytestmark = pytest.mark.django_db


def _make(client, scope="read"):
    page = client.post("/tokens/", {"name": "CI", "scope": scope}, follow=True).content.decode()
    return re.search(r"kwb_[\w-]{40,}", page)[0]


def test_a_token_is_shown_once_and_speaks_for_its_owner(browser, engineer):
    client = browser(engineer)
    answer = client.post("/tokens/", {"name": "CI", "scope": "read"})
    assert answer.status_code == 302, "loading the page again makes no second token"
    (kept,) = (each for name, each in client.session.items() if name.startswith("shown once"))
    secret = re.search(r"kwb_[\w-]{40,}", client.get("/tokens/").content.decode())[0]
    assert secret not in kept
    assert secret not in client.get("/tokens/").content.decode()
    assert ApiToken.objects.count() == 1
    assert _me(secret).json() == {"email": engineer.email, "organisation": "Voice", "role": "engineer", "scope": "read"}


def test_only_a_keyed_hash_is_kept_and_each_sees_their_own(browser, engineer, settings, admin, organisation, account):
    secret = _make(browser(engineer))
    token = ApiToken.objects.get()
    assert token.prefix == secret[:12]
    assert token.digest != hashlib.sha256(secret.encode()).hexdigest()
    settings.SECRET_KEY = "another key"
    assert _me(secret).status_code == 401
    token, _ = tokens.issue(organisation, engineer, "Engineer's own", "read")
    address = reverse("revoke-token", args=[token.pk])
    assert "Engineer&#x27;s own" not in browser(account).get("/tokens/").content.decode()
    assert browser(account).post(address).status_code == 404
    assert browser(admin).post(address).status_code == 302


def test_a_token_has_a_name_by_form_and_api(browser, api, engineer):
    form = browser(engineer).post("/tokens/", {"name": "   ", "scope": "read"})
    assert (form.status_code, "Spaces alone are not enough." in form.content.decode()) == (422, True)
    client = api(engineer)
    answer = client.post("/api/v1/tokens", {"name": "   "})
    assert (answer.status_code, answer.json()["detail"]) == (422, "name: spaces alone are not enough")
    assert ApiToken.objects.filter(user=engineer).count() == 1, "the one that asks"
    assert client.post("/api/v1/tokens", {"name": " CI "}).json()["name"] == "CI"


def test_a_token_keeps_to_its_organisation_opens_no_page_and_ends_with_its_user(foreigner, organisation, engineer):
    Membership.objects.create(user=foreigner, organisation=organisation, role=Role.ENGINEER)
    _, secret = tokens.issue(organisation, foreigner, "CI", "write")
    assert _me(secret).json()["organisation"] == "Voice"
    assert tokens.find(secret).organisation == organisation
    assert _client(secret).get("/members/").status_code == 302
    foreigner.is_active = False
    foreigner.save()
    assert _me(secret).status_code == 401


def _client(secret):
    return Client(headers={"Authorization": f"Bearer {secret}"})


def _me(secret):
    return _client(secret).get("/api/v1/me")


def _end(token, days=-1):
    ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() + timedelta(days=days))


def _post(client, **body):
    return client.post("/api/v1/tokens", json.dumps({"name": "CI", "scope": "write"} | body), "application/json")


def test_a_token_that_ended_opens_nothing_and_says_so(organisation, engineer):
    token, secret = tokens.issue(organisation, engineer, "CI", "read")
    _end(token, days=1)
    assert _me(secret).status_code == 200
    _end(token)
    refused = _me(secret)
    assert refused.status_code == 401
    assert f"expired on {ApiToken.objects.get().expires_at:%Y-%m-%d}" in refused.json()["detail"]
    assert 'error="invalid_token"' in refused["WWW-Authenticate"]


@pytest.mark.parametrize(("chosen", "days"), [("30", 30), ("365", 365), ("", None)])
def test_the_form_lets_one_choose_the_end(browser, engineer, chosen, days):
    browser(engineer).post("/tokens/", {"name": "CI", "scope": "read", "days": chosen})
    end = ApiToken.objects.get().expires_at
    assert end is None if days is None else timedelta(days=days - 1) < end - timezone.now() <= timedelta(days=days)


def test_the_api_makes_lists_and_revokes(browser, organisation, engineer, account):
    tokens.issue(organisation, account, "somebody else's", "read")
    _, secret = tokens.issue(organisation, engineer, "first", "write")
    response = _post(_client(secret), days=7)
    assert response.status_code == 201
    assert _me(response.json()["secret"]).status_code == 200
    listed = {row["name"]: row for row in _client(secret).get("/api/v1/tokens").json()["items"]}
    assert set(listed) == {"first", "CI"}
    assert listed["CI"]["last_used_at"] is not None
    assert listed["CI"]["expires_at"] == response.json()["expires_at"]
    assert "secret" not in listed["CI"]
    assert _client(secret).delete(f"/api/v1/tokens/{response.json()['id']}").status_code == 204
    assert _me(response.json()["secret"]).status_code == 401


def test_a_token_makes_none_that_outlives_it(organisation, engineer):
    _, secret = tokens.issue(organisation, engineer, "CI", "write", days=7)
    for days in (8, None):
        refused = _post(_client(secret), days=days)
        assert (refused.status_code, "days" in refused.json()["detail"]) == (422, True)
    assert _post(_client(secret), days=6).status_code == 201


def test_one_person_has_a_hundred_living_tokens_at_most(organisation, engineer, monkeypatch):
    monkeypatch.setattr(tokens, "MAX_ACTIVE_TOKENS", 2)
    client = _client(tokens.issue(organisation, engineer, "CI", "write")[1])
    assert [_post(client, days=7).status_code for _ in range(2)] == [201, 422]
    _end(ApiToken.objects.get(expires_at__isnull=False))
    assert _post(client, days=7).status_code == 201


def test_a_repeated_request_does_not_keep_the_secret(organisation, engineer):
    client = _client(tokens.issue(organisation, engineer, "CI", "write")[1])
    client.defaults["HTTP_IDEMPOTENCY_KEY"] = "k"
    secret = _post(client, days=7).json()["secret"]
    again = _post(client, days=7)
    assert again.status_code == 409
    assert secret not in again.content.decode()
    assert ApiToken.objects.count() == 2
    with connection.cursor() as cursor:
        cursor.execute("SELECT body FROM api_idempotentrequest")
        assert secret.encode() not in b"".join(bytes(row[0]) for row in cursor.fetchall())


def test_a_minute_of_use_writes_once(organisation, engineer):
    _, secret = tokens.issue(organisation, engineer, "CI", "read")
    writes = []
    for _ in range(3):
        with CaptureQueriesContext(connection) as queries:
            _me(secret)
        writes.append(sum(query["sql"].startswith("UPDATE") for query in queries))
    assert writes == [1, 0, 0]


def test_what_a_token_made_ends_when_it_is_revoked(organisation, engineer):
    """A thief of the token may have made others with it, and more with those."""
    revoked, secret = tokens.issue(organisation, engineer, "CI", "write")
    other, _ = tokens.issue(organisation, engineer, "mine", "write")
    child = _post(_client(secret), name="child", days=30).json()["secret"]
    grandchild = _post(_client(child), name="grandchild", days=20).json()["secret"]
    assert _me(grandchild).status_code == 200
    tokens.revoke(revoked)
    assert [_me(value).status_code for value in (secret, child, grandchild)] == [401, 401, 401]
    other.refresh_from_db()
    assert other.revoked_at is None
    with pytest.raises(AccountError, match="has been revoked"):
        tokens.issue_by_token(revoked, "late", "write", 30)
