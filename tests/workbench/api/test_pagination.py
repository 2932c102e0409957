"""Lists by cursor: every row once, even while rows come and share their time."""

import pytest
from django.utils import timezone

from workbench.accounts.models import Invitation

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.workbench.api.frame_site")]


def _invite(organisation, number):
    return Invitation.objects.create(organisation=organisation, email=f"{number}@x.test", digest=f"{number}")


def _walk(client, limit):
    cursor, seen = "", []
    while cursor is not None:
        page = client.get("/api/frame/invitations", {"limit": limit, "cursor": cursor}).json()
        assert len(page["items"]) <= limit
        seen += page["items"]
        cursor = page["next"]
    return seen


@pytest.mark.parametrize("limit", [1, 3, 7, 200])
def test_every_row_is_seen_once(api, engineer, organisation, limit):
    for number in range(7):
        _invite(organisation, number)
    Invitation.objects.filter(email__in=["1@x.test", "2@x.test", "3@x.test"]).update(created_at=timezone.now())
    seen = _walk(api(engineer), limit)
    assert sorted(seen) == [f"{number}@x.test" for number in range(7)]


def test_new_rows_do_not_shift_the_pages(api, engineer, organisation):
    for number in range(4):
        _invite(organisation, number)
    client = api(engineer)
    first = client.get("/api/frame/invitations", {"limit": 2}).json()
    _invite(organisation, "new")
    second = client.get("/api/frame/invitations", {"limit": 2, "cursor": first["next"]}).json()
    assert first["items"] + second["items"] == ["3@x.test", "2@x.test", "1@x.test", "0@x.test"]


def test_another_organisation_sees_none_of_them(api, foreigner, organisation):
    _invite(organisation, 1)
    assert _walk(api(foreigner), 10) == []


@pytest.mark.parametrize("query", [{"cursor": "rubbish"}, {"cursor": "WzEsMl0"}, {"limit": 0}, {"limit": 201}])
def test_a_bad_cursor_or_limit_is_named(api, engineer, query):
    response = api(engineer).get("/api/frame/invitations", query)
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == next(iter(query))
