"""Every endpoint of the OpenAPI document, called by whom it is not for."""

import json
import re
from functools import cache
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from ninja import NinjaAPI

from tests import sample_bring_up, sample_runs
from workbench.accounts import tokens
from workbench.api_v1 import api as v1
from workbench.intake.services import uploads
from workbench.intake.services.uploads import AnnouncedFile
from workbench.notifications.models import Webhook
from workbench.reports.services import freeze
from workbench.worker_site.urls import api as worker_api

pytestmark = pytest.mark.django_db
MISSING = "00000000-0000-4000-8000-000000000000"
LISTS = (
    "me audit catalogue models uploads recordings workloads runs reports prices tokens webhooks deliveries bring-ups"
)
OWN_LISTS = {("GET", f"/{name}") for name in LISTS.split()}
"""They answer every caller with the caller's own rows."""
FOR_ADMINS = {"/audit", "/webhooks", "/deliveries"}
WRITES = "uploads uploads/selection workloads prices tokens webhooks bring-ups"
OWN_WRITES = {("POST", f"/{name}") for name in WRITES.split()}
"""They make the caller's own rows."""
BODIES: dict[str, Any] = {
    "/uploads/selection": {"paths": ["config.json"]},
    "/uploads": {"name": "m", "files": [{"path": "config.json", "size": 1}]},
    "/workloads": {"model": "tiny-llama", "objectives": [{"metric": "ttft", "limit": 100}]},
    "/runs": {"workload": "{workload_id}"},
    "/tokens": {"name": "CI"},
    "/reports": {"run": "{run_id}"},
    "/reports/{report_id}/review": {"note": ""},
    "/uploads/{upload_id}/finish": {"files": []},
    "/workloads/{workload_id}": {"project": "Voice"},
    "/runs/{run_id}": {"tags": ["nightly"]},
    "/bring-ups": sample_bring_up.measured().model_dump(mode="json"),
}
QUERIES = {"/runs/{run_id}/comparison": "?kept_id={kept_id}"}
"""What an operation is asked with."""


@cache
def _paths(api: NinjaAPI) -> dict[str, Any]:
    return api.get_openapi_schema(path_prefix="")["paths"]


def _operations(api, with_body=False):
    """Methods and paths; `with_body`: of those that take a JSON document."""
    return [
        (method.upper(), path)
        for path, operations in _paths(api).items()
        for method, operation in operations.items()
        if not with_body or "application/json" in operation.get("requestBody", {}).get("content", {})
    ]


@pytest.fixture
def ids(done, organisation, engineer):
    """One object of each kind, by the parameter's name."""
    upload = uploads.create(organisation, engineer, "half", [AnnouncedFile("config.json", 10)])
    report = freeze(done, engineer)
    webhook = Webhook.objects.create(organisation=organisation, url="https://hooks.example.com/", kinds=[], secret="")
    return {
        "run_id": str(sample_runs.in_processes(done).id),
        "kept_id": str(sample_runs.in_processes(sample_runs.run(organisation, engineer)).id),
        "workload_id": str(done.workload_id),
        "model_id": str(done.workload.model_id),
        "upload_id": str(upload.id),
        "report_id": str(report.id),
        "token_id": str(tokens.issue(organisation, engineer, "CI", "read")[0].id),
        "webhook_id": str(webhook.id),
        "bring_up_id": str(sample_bring_up.row(organisation, engineer).id),
        "number": "0",
        "stage": "report",
        "name": "report.html",
        "attempt": "1",
        "path": "config.json",
        "sha256": "0" * 64,
    }


def _call(client: Client, method: str, path: str, ids: dict[str, str]) -> Any:
    body = {
        key: value.format(**ids) if isinstance(value, str) else value for key, value in BODIES.get(path, {}).items()
    }
    chunk = method == "PATCH" and path.startswith("/uploads/")
    headers = {"Upload-Offset": "0"} if chunk else {}
    return client.generic(
        method,
        "/api/v1" + (path + QUERIES.get(path, "")).format(**ids),
        b"x" if chunk else json.dumps(body),
        content_type="application/json",
        headers=headers,
    )


@pytest.fixture(autouse=True)
def many_requests(settings):
    settings.API_REQUESTS_PER_MINUTE = 10_000


def test_a_foreign_object_is_not_found(api, ids, foreigner, engineer):
    stranger, owner = api(foreigner), api(engineer)
    for method, path in [operation for operation in _operations(v1) if operation not in OWN_LISTS | OWN_WRITES]:
        response = _call(stranger, method, path, ids)
        assert response.status_code == 404, (path, response.content)
        assert response["Content-Type"] == "application/problem+json"
        with transaction.atomic():
            own = _call(owner, method, path, ids)
            transaction.set_rollback(True)
        assert own.status_code != 404, f"the owner finds {path}, so the 404 above is about ownership"


def test_lists_show_nothing_foreign_and_roles_do_what_they_may(api, ids, foreigner, organisation, account, engineer):
    client = api(foreigner)
    for method, path in sorted(OWN_LISTS):
        response = _call(client, method, path, ids)
        assert response.status_code == 200, path
        text = response.content.decode()
        assert not [name for name, value in ids.items() if name.endswith("_id") and value in text], path
        assert organisation.name not in text, path
    for user, operations in ((account, OF_SUBMITTERS), (engineer, OF_REVIEWERS)):
        client = api(user)
        assert {_call(client, method, path, ids).status_code for method, path in operations} == {403}


def test_a_read_token_only_reads_and_nobody_gets_in_without_one(api, ids, engineer, admin, client, settings):
    reader, admins = api(engineer, "read"), api(admin, "read")
    for method, path in _operations(v1):
        response = _call(admins if path in FOR_ADMINS else reader, method, path, ids)
        assert response.status_code == (200 if method == "GET" else 403), (method, path)
        assert method == "GET" or "may only read" in response.json()["detail"]
    for method, path in _operations(v1):
        response = _call(client, method, path, ids)
        assert (response.status_code, response["Content-Type"]) == (401, "application/problem+json"), path
    client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {settings.WORKER_TOKEN}"
    assert {_call(client, method, path, ids).status_code for method, path in _operations(worker_api)} == {404}


@pytest.mark.urls("workbench.worker_site.urls")
def test_no_token_of_a_customer_opens_the_worker_api_whose_server_serves_nothing_else(client, api, browser, ids, admin):
    for caller in (client, api(admin), browser(admin)):
        assert {_call(caller, method, path, ids).status_code for method, path in _operations(worker_api)} == {401}
    assert {_call(api(admin), method, path, ids).status_code for method, path in _operations(v1)} == {404}


OF_SUBMITTERS = (
    ("POST", "/uploads"),
    ("PATCH", "/uploads/{upload_id}/files/{number}"),
    ("POST", "/uploads/{upload_id}/finish"),
    ("DELETE", "/uploads/{upload_id}"),
    ("POST", "/workloads"),
    ("POST", "/runs"),
    ("POST", "/runs/{run_id}/cancel"),
    ("POST", "/runs/{run_id}/go-on"),
    ("POST", "/bring-ups"),
    ("DELETE", "/bring-ups/{bring_up_id}"),
)
OF_REVIEWERS = (("POST", "/reports/{report_id}/review"), ("POST", "/reports/{report_id}/publish"))


def test_an_unknown_query_parameter_is_named_with_those_that_there_are(api, client, admin, organisation):
    places = {name: MISSING for name in re.findall(r"{(\w+)}", str(_paths(v1)))} | {"number": "0", "stage": "report"}
    caller = api(admin)
    for address, operations in v1.get_openapi_schema(path_prefix="/api/v1")["paths"].items():
        for method, operation in operations.items():
            known = [item["name"] for item in operation.get("parameters", []) if item["in"] == "query"]
            answer = caller.generic(method.upper(), f"{address.format(**places)}?stat=open&limit=5&curser=")
            unknown = ["stat", "curser"] if "limit" in known else ["stat", "limit", "curser"]
            text = f"{', '.join(unknown)}: are no parameters here; this address takes {', '.join(known) or 'none'}"
            assert (answer.status_code, answer.json()["detail"]) == (422, text), (method, address)
            assert [row["field"] for row in answer.json()["errors"]] == unknown
    assert client.get("/api/v1/runs?stat=open").status_code == 401, "without a token, no parameter is checked"


def test_a_body_that_is_no_object_or_has_an_unknown_field_is_refused(api, ids, admin):
    client, no_object = api(admin), "body: should be an object with named fields"
    for method, path in _operations(v1, with_body=True):
        unknown = "colour: is not a known field"
        for raw, detail in ((b"[]", no_object), (b"true", no_object), (b'{"colour": "red"}', unknown)):
            answer = client.generic(method, "/api/v1" + path.format(**ids), raw, content_type="application/json")
            assert answer.status_code == 422, (path, raw, answer.content)
            assert detail in [f"{row['field']}: {row['reason']}" for row in answer.json()["errors"]], path
