"""Tokens with scopes, logins with CSRF, workers with their own token, and the rate limit."""

from types import SimpleNamespace

import pytest

from tests.workbench.conftest import JsonClient

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.workbench.api.frame_site")]
SLA = {"objectives": [{"metric": "ttft", "limit": 100}]}


@pytest.fixture
def set_clock(monkeypatch):
    """`set_clock(seconds)`: the time by which requests are counted."""

    def set_to(seconds):
        monkeypatch.setattr("workbench.api.throttle.time", SimpleNamespace(time=lambda: 1_000_000_000.0 + seconds))

    set_to(0)
    return set_to


def test_a_login_writes_only_with_the_csrf_token(engineer):
    client = JsonClient(enforce_csrf_checks=True)
    client.force_login(engineer)
    assert client.get("/api/frame/invitations").status_code == 200
    refused = client.post("/api/frame/sla", SLA)
    assert (refused.status_code, refused["Content-Type"]) == (403, "application/problem+json")
    client.cookies["csrftoken"] = "a" * 32
    assert client.post("/api/frame/sla", SLA, headers={"X-CSRFToken": "a" * 32}).status_code == 200


def test_a_login_rescues_no_bad_token_and_the_workers_opens_its_api_alone(browser, engineer, make_user, api, settings):
    response = browser(engineer).get("/api/frame/invitations", headers={"Authorization": "Bearer kwb_wrong"})
    assert response.status_code == 401
    response = browser(make_user("alone@x.test")).get("/api/frame/invitations")
    assert (response.status_code, response.json()["detail"]) == (403, "You are not a member of any organisation.")
    settings.WORKER_TOKEN = "the worker's"
    worker = JsonClient(headers={"Authorization": "Bearer the worker's"})
    assert worker.get("/api/frame/worker").status_code == 200
    assert worker.get("/api/frame/invitations").status_code == 401
    assert api(engineer).get("/api/frame/worker").status_code == 401


def test_a_person_has_one_limit_for_all_tokens(api, engineer, account, settings, set_clock):
    settings.API_REQUESTS_PER_MINUTE = 2
    eager, another, calm = api(engineer), api(engineer), api(account)
    answers = [value.get("/api/frame/invitations").status_code for value in (eager, another, eager)]
    assert answers == [200, 200, 429]
    limited = another.get("/api/frame/invitations")
    assert limited["Content-Type"] == "application/problem+json"
    assert limited["Retry-After"] == "20"
    assert calm.get("/api/frame/invitations").status_code == 200
    set_clock(20)
    assert eager.get("/api/frame/invitations").status_code == 200


def test_an_organisation_has_a_limit(api, engineer, account, foreigner, settings, set_clock):
    settings.ORGANISATION_REQUESTS_PER_MINUTE = 2
    answers = [api(value).get("/api/frame/invitations").status_code for value in (engineer, account, engineer)]
    assert answers == [200, 200, 429]
    assert api(foreigner).get("/api/frame/invitations").status_code == 200


@pytest.mark.urls("workbench.urls")
def test_forms_of_pages_are_limited_apart_from_the_api(api, browser, engineer, settings, set_clock):
    settings.API_REQUESTS_PER_MINUTE = 2
    client = api(engineer)
    assert [client.get("/api/v1/me").status_code for _ in range(3)] == [200, 200, 429]
    person = browser(engineer)
    posts = [person.post("/tokens/", {"name": ""}) for _ in range(3)]
    assert [post.status_code for post in posts] == [422, 422, 429]
    assert "try again in 20 seconds" in posts[-1].content.decode()
    assert person.get("/tokens/").status_code == 200, "reading goes on"
