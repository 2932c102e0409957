"""`workbench tokens` against a live server."""

import json

import pytest

from workbench.accounts.models import ApiToken

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_token_is_made_used_listed_and_revoked(cli, monkeypatch):
    made = cli("tokens", "make", "Nightly build", "--days", "7")
    assert made.exit_code == 0, made.stderr
    secret, token = made.stdout.strip(), ApiToken.objects.get(name="Nightly build")
    assert token.prefix == secret[:12]
    assert f"{token.expires_at:%Y-%m-%d}" in made.stderr

    rows = json.loads(cli("tokens", "list", "--json").stdout)
    assert [row["name"] for row in rows] == ["Nightly build", "cli"]
    assert rows[1]["last_used_at"] is not None
    listed = cli("tokens", "list").stdout
    assert f"{token.expires_at:%Y-%m-%d}" in listed
    assert "never" in listed

    assert cli("tokens", "revoke", token.pk).exit_code == 0
    monkeypatch.setenv("WORKBENCH_TOKEN", secret)
    assert cli("runs").exit_code == 2


def test_a_bad_request_gets_a_sentence(cli):
    assert cli("tokens", "make", "x", "--days", "0").exit_code == 2
    gone = cli("tokens", "revoke", "00000000-0000-4000-8000-000000000000")
    assert (gone.exit_code, gone.stderr.count("workbench:")) == (2, 1)


def test_an_expired_token_is_said_to_be_expired(cli):
    ApiToken.objects.update(expires_at="2026-01-02T00:00:00Z")
    refused = cli("runs")
    assert refused.exit_code == 2
    assert "This token expired on 2026-01-02" in refused.stderr
