"""Lists by cursor: every row once, even while rows come and share their time."""

import base64
import json

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


def _cursor(document):
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode()


BAD_CURSORS = [
    "rubbish",
    "\x00",
    "é",
    _cursor(1),
    _cursor([1, 2]),
    _cursor(["2026-01-01T00:00:00Z", "no uuid"]),
    _cursor(["2026-01-01T00:00:00Z", ["list"]]),
    _cursor(["0001-01-01T00:00:00+14:00", "00000000-0000-4000-8000-000000000000"]),
    _cursor([None, None]),
]


@pytest.mark.parametrize("query", [*({"cursor": cursor} for cursor in BAD_CURSORS), {"limit": 0}, {"limit": 201}])
def test_a_bad_cursor_or_limit_is_named(api, engineer, query):
    response = api(engineer).get("/api/frame/invitations", query)
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == next(iter(query))
