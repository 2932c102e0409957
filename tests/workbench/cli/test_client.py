"""Patience with a server that is busy or restarting, a POST that is done once, and `workbench tokens`."""

import json
import time
from types import SimpleNamespace

import httpx
import pytest

from tests import sample_runs
from workbench.accounts.models import ApiToken
from workbench.api.models import IdempotentRequest
from workbench.cli import client as clients
from workbench.cli.client import ApiClient
from workbench.cli.errors import CliError, Exit
from workbench.intake.models import Workload

pytestmark = pytest.mark.django_db(transaction=True)
WORKLOAD = {"model": "tiny-llama", "objectives": [{"metric": "ttft", "limit": 100}]}


class Breaking(httpx.HTTPTransport):
    """Loses the answers of the first `lost` requests after `before` good ones."""

    def __init__(self, lost: int, before: int = 0) -> None:
        super().__init__()
        self.lost, self.before = lost, before

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if self.before > 0:
            self.before -= 1
        elif self.lost > 0:
            self.lost -= 1
            response.read()
            raise httpx.ReadError("the answer was lost", request=request)
        return response


@pytest.fixture(autouse=True)
def waits(monkeypatch, settings):
    """The seconds that the client would have slept; sleeping lifts the rate limit."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        settings.API_REQUESTS_PER_MINUTE = 100

    monkeypatch.setattr(clients, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    return slept


def test_a_post_whose_answer_is_lost_is_done_once_and_who_answered_is_waited_for_longer(live_server, secret, done):
    run_ids = ApiClient(live_server.url, secret, Breaking(lost=2)).post("/workloads", WORKLOAD)
    assert str(Workload.objects.get(name=run_ids["name"]).id) == run_ids["id"]
    assert IdempotentRequest.objects.count() == 1
    run_ids = [str(sample_runs.run(done.organisation, done.created_by).id) for _ in range(2)]
    rows = ApiClient(live_server.url, secret).rows("/runs", limit=2)
    assert [row["id"] for row in rows] == run_ids[::-1]
    with pytest.raises(CliError, match="cannot be reached: the answer was lost") as raised:
        ApiClient(live_server.url, secret, Breaking(lost=5)).get("/me")
    assert raised.value.code == Exit.FAILED
    api = ApiClient(live_server.url, secret, Breaking(lost=5, before=1))
    assert api.get("/me") == api.get("/me")


def test_it_waits_as_long_as_it_is_told(live_server, secret, settings, waits, monkeypatch):
    monkeypatch.setattr("workbench.api.throttle.time", SimpleNamespace(time=lambda: 1_000_000_000.0))
    settings.API_REQUESTS_PER_MINUTE = 1
    api = ApiClient(live_server.url, secret)
    api.get("/me")
    assert waits == []
    api.get("/me")
    assert waits == [20]


def test_a_token_is_made_used_listed_and_revoked(cli, monkeypatch):
    result = cli("tokens", "make", "Nightly build", "--days", "7")
    assert result.exit_code == 0, result.stderr
    secret, token = result.stdout.strip(), ApiToken.objects.get(name="Nightly build")
    assert token.prefix == secret[:12]
    assert f"{token.expires_at:%Y-%m-%d}" in result.stderr

    rows = json.loads(cli("tokens", "list", "--json").stdout)
    assert [row["name"] for row in rows] == ["Nightly build", "cli"]
    assert rows[1]["last_used_at"] is not None
    listed = cli("tokens", "list").stdout
    assert f"{token.expires_at:%Y-%m-%d}" in listed
    assert "never" in listed

    assert cli("tokens", "revoke", token.pk).exit_code == 0
    monkeypatch.setenv("WORKBENCH_TOKEN", secret)
    assert cli("runs").exit_code == 2


def test_a_bad_request_and_an_expired_token_get_a_sentence(cli):
    assert cli("tokens", "make", "x", "--days", "0").exit_code == 2
    gone = cli("tokens", "revoke", "00000000-0000-4000-8000-000000000000")
    assert (gone.exit_code, gone.stderr.count("workbench:")) == (2, 1)
    ApiToken.objects.update(expires_at="2026-01-02T00:00:00Z")
    refused = cli("runs")
    assert (refused.exit_code, "This token expired on 2026-01-02" in refused.stderr) == (2, True)
