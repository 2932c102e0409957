"""API tokens: shown once, kept as a keyed hash, of one organisation, revocable."""

import hashlib
import re

import pytest
from django.test import Client
from django.urls import reverse

from workbench.accounts import tokens
from workbench.accounts.models import ApiToken, Membership, Role

pytestmark = pytest.mark.django_db


def _make(client, scope="read"):
    page = client.post("/tokens/", {"name": "CI", "scope": scope}, follow=True).content.decode()
    return re.search(r"kwb_[\w-]{40,}", page)[0]


def _me(secret):
    return Client(headers={"Authorization": f"Bearer {secret}"}).get("/api/v1/me")


def test_a_token_is_shown_once_and_speaks_for_its_owner(browser, engineer):
    client = browser(engineer)
    answer = client.post("/tokens/", {"name": "CI", "scope": "read"})
    assert answer.status_code == 302, "loading the page again makes no second token"
    (kept,) = (each for name, each in client.session.items() if name.startswith("shown once"))
    secret = re.search(r"kwb_[\w-]{40,}", client.get("/tokens/").content.decode())[0]
    assert secret not in kept
    assert secret not in client.get("/tokens/").content.decode()
    assert ApiToken.objects.count() == 1
    assert _me(secret).json() == {
        "email": engineer.email,
        "organisation": "Voice",
        "role": "engineer",
        "scope": "read",
    }


def test_only_a_keyed_hash_is_kept(browser, engineer, settings):
    secret = _make(browser(engineer))
    token = ApiToken.objects.get()
    assert token.prefix == secret[:12]
    assert token.digest != hashlib.sha256(secret.encode()).hexdigest()
    settings.SECRET_KEY = "another key"
    assert _me(secret).status_code == 401


def test_a_token_has_a_name_by_form_and_api(browser, api, engineer):
    form = browser(engineer).post("/tokens/", {"name": "   ", "scope": "read"})
    assert form.status_code == 422
    assert "Spaces alone are not enough." in form.content.decode()
    client = api(engineer)
    answer = client.post("/api/v1/tokens", {"name": "   "}, content_type="application/json")
    assert answer.status_code == 422
    assert answer.json()["detail"] == "name: spaces alone are not enough"
    assert ApiToken.objects.filter(user=engineer).count() == 1, "the one that asks"
    assert client.post("/api/v1/tokens", {"name": " CI "}, content_type="application/json").json()["name"] == "CI"


def test_the_token_of_an_inactive_user_opens_nothing(engineer, organisation):
    _, secret = tokens.issue(organisation, engineer, "CI", "read")
    engineer.is_active = False
    engineer.save()
    assert _me(secret).status_code == 401


def test_a_token_keeps_to_its_organisation(foreigner, organisation, engineer):
    Membership.objects.create(user=foreigner, organisation=organisation, role=Role.ENGINEER)
    _, secret = tokens.issue(organisation, foreigner, "CI", "read")
    assert _me(secret).json()["organisation"] == "Voice"
    assert tokens.find(secret).organisation == organisation


def test_a_token_opens_no_page(engineer, organisation):
    _, secret = tokens.issue(organisation, engineer, "CI", "write")
    page = Client(headers={"Authorization": f"Bearer {secret}"}).get("/members/")
    assert page.status_code == 302


def test_one_sees_and_revokes_ones_own_tokens_and_an_admin_all(browser, admin, organisation, engineer, account):
    token, _ = tokens.issue(organisation, engineer, "Engineer's own", "read")
    address = reverse("revoke-token", args=[token.pk])
    assert "Engineer&#x27;s own" not in browser(account).get("/tokens/").content.decode()
    assert browser(account).post(address).status_code == 404
    assert browser(admin).post(address).status_code == 302
