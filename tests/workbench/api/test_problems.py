"""Every error of the API is problem+json with one sentence, the same as a form's; lists go by cursor, each row once."""

import base64
import json
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone
from pydantic import ValidationError

from workbench.accounts.models import Invitation
from workbench.api.sentences import sentences
from workbench.runs.schemas import NewRun
from workers.documents.workload import Sla

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.workbench.api.frame_site")]
OBJECTIVE = {"metric": "ttft", "limit": 100}


def _problem(response, status):
    assert (response.status_code, response["Content-Type"]) == (status, "application/problem+json")
    document = response.json()
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    return document


@pytest.mark.parametrize(
    ("document", "field", "reason"),
    [
        ({"objectives": []}, "objectives", "should have at least 1 item, not 0"),
        ({}, "objectives", "is required"),
        ({"objectives": OBJECTIVE}, "objectives", "should be a list"),
        ({"objectives": [OBJECTIVE | {"limit": -5}]}, "objectives[0].limit", "should be greater than 0, not -5"),
        ({"objectives": [{"metric": "ttf_n", "limit": 1}]}, "objectives[0].n", "ttf_n needs n, the number of"),
        ({"objectives": [OBJECTIVE], "colour": "red"}, "colour", "is not a known field"),
        ({"objectives": [OBJECTIVE | {"metric": "ttf_n", "n": 900}]}, "objectives[0].n", "TTF900 p50 asks for token"),
        ({"objectives": [OBJECTIVE], "traffic": {"batch": "x"}}, "traffic.batch", "should be a whole number, not 'x'"),
        ({"objectives": [OBJECTIVE], "load": {"most_users": 2.5}}, "load.most_users", "should be a whole number, not"),
        ({"objectives": [OBJECTIVE | {"limit": True}]}, "objectives[0].limit", "should be a number, not true"),
        ({"objectives": [OBJECTIVE], "name": "x" * 999}, "name", "should have at most"),
    ],
)
def test_api_and_forms_name_the_field_and_the_reason_alike(api, engineer, document, field, reason):
    problem = _problem(api(engineer).post("/api/frame/sla", document), 422)
    with pytest.raises(ValidationError) as raised:
        Sla.model_validate(document)
    assert problem["errors"] == [error | {"file": ""} for error in sentences(raised.value)]
    assert sentences(raised.value, "sla.yaml")[0]["file"] == "sla.yaml"
    first = problem["errors"][0]
    assert (first["field"], first["reason"].startswith(reason)) == (field, True)
    assert problem["detail"] == f"{first['field']}: {first['reason']}"


def test_what_a_pattern_asks_for_is_said_in_words():
    with pytest.raises(ValidationError) as raised:
        NewRun.model_validate({"workload": str(uuid4()), "tags": ["night,weekly"]})
    assert sentences(raised.value) == [{"field": "tags[0]", "reason": "should be without a comma, not 'night,weekly'"}]


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ("{broken", 400, "is not valid JSON: line 1, column 2: broken JSON (Expecting property name"),
        ("[" * 100_000, 400, "is not valid JSON: the JSON is nested deeper than 100 levels"),
        ("[" * 900 + "]" * 900, 400, "is not valid JSON: the JSON is nested deeper than 100 levels"),
        ('{"name": "a", "name": "b"}', 400, "is not valid JSON: name: the key is there twice"),
        (b"\xff", 400, "is not valid JSON: byte 0: the file is not UTF-8 text"),
        ('{"name": "a\\u0000b"}', 400, "is not valid JSON: text must not contain the character NUL"),
        ("[" + "{}," * 200_000 + "{}]", 400, "is not valid JSON: there are more than 300,000 entries"),
        ("", 422, "is required"),
        ("[]", 422, "should be an object with named fields"),
        ("1", 422, "should be an object with named fields"),
    ],
)
def test_a_body_that_is_no_document_is_one_sentence(api, engineer, body, status, reason):
    problem = _problem(api(engineer).post("/api/frame/sla", body), status)
    assert problem["detail"].startswith(f"body: {reason}")


def test_a_crash_and_a_wrong_answer_tell_nothing_but_the_request_id(api, engineer):
    client = api(engineer)
    client.raise_request_exception = False
    response = client.get("/api/frame/crash", headers={"X-Request-ID": "abc-1"})
    assert "hunter2" not in response.content.decode()
    assert "Traceback" not in response.content.decode()
    _problem(response, 500)
    assert response["X-Request-ID"] == "abc-1"
    assert "objectives" not in _problem(client.get("/api/frame/wrong"), 500)["detail"]
    assert client.get("/api/frame/nothing", headers={"X-Request-ID": "a b<script>"})["X-Request-ID"].isalnum()


@pytest.mark.urls("workbench.urls")
def test_an_unknown_address_is_not_taken_for_a_foreign_object(api, engineer):
    client = api(engineer)
    for path in ("nothing", "runs/17", "docs/nothing"):
        assert _problem(client.get(f"/api/v1/{path}"), 404)["detail"].startswith(
            "There is no such address; /api/v1/docs"
        )
    foreign = _problem(client.get("/api/v1/runs/00000000-0000-4000-8000-000000000000"), 404)
    assert foreign["detail"] == "No such run in this organisation."


def test_an_unknown_address_a_wrong_method_a_huge_body_and_a_raised_problem(api, engineer, settings):
    client = api(engineer)
    assert _problem(client.get("/api/frame/nothing"), 404)["detail"] == "There is no such address."
    response = client.delete("/api/frame/sla")
    _problem(response, 405)
    assert response["Allow"] == "POST"
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    _problem(client.post("/api/frame/sla", {"objectives": [OBJECTIVE], "name": "x" * 200}), 413)
    problem = _problem(client.post("/api/frame/refuse"), 409)
    assert problem["detail"] == "It is taken."
    assert problem["errors"] == [{"field": "name", "reason": "is taken", "file": ""}]


def test_without_a_caller_it_is_401_and_the_document_says_how_things_fail(client):
    response = client.get("/api/frame/invitations")
    assert "Bearer" in _problem(response, 401)["detail"]
    assert response["WWW-Authenticate"] == "Bearer"
    _problem(Client(headers={"Authorization": "Bearer kwb_wrong"}).get("/api/frame/invitations"), 401)
    document = client.get("/api/frame/openapi.json").json()
    operation = document["paths"]["/api/frame/sla"]["post"]
    assert "application/problem+json" in operation["responses"]["default"]["content"]
    assert "ProblemDocument" in document["components"]["schemas"]
    assert [item["name"] for item in operation["parameters"]] == ["Idempotency-Key"]
    assert not document["paths"]["/api/frame/crash"]["get"].get("parameters")


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


def test_every_row_is_seen_once_and_new_rows_do_not_shift_the_pages(api, engineer, organisation):
    client, rows = api(engineer), [f"{number}@x.test" for number in range(7)]
    for number in range(4):
        _invite(organisation, number)
    first = client.get("/api/frame/invitations", {"limit": 2}).json()
    for number in range(4, 7):
        _invite(organisation, number)
    second = client.get("/api/frame/invitations", {"limit": 2, "cursor": first["next"]}).json()
    assert first["items"] + second["items"] == rows[3::-1]
    Invitation.objects.filter(email__in=rows[1:4]).update(created_at=timezone.now())
    for limit in (1, 3, 7, 200):
        assert sorted(_walk(client, limit)) == rows


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


def test_a_bad_cursor_or_limit_is_named(api, engineer):
    client = api(engineer)
    for query in (*({"cursor": cursor} for cursor in BAD_CURSORS), {"limit": 0}, {"limit": 201}):
        response = client.get("/api/frame/invitations", query)
        assert (response.status_code, response.json()["errors"][0]["field"]) == (422, next(iter(query))), query
