"""A workload's endpoint: the operator says where it may be, and its key goes in and comes out for its worker alone."""

import json
import re

import pytest
from django.core import serializers

from tests.workbench.intake.workload_documents import fields
from workbench.accounts.secrets import cipher
from workbench.api.models import IdempotentRequest
from workbench.audit.models import Action, Entry
from workbench.intake.models import Workload
from workbench.intake.services.endpoints import KEYS
from workbench.intake.services.workloads import create_workload
from workbench.runs.models import Run
from workbench.runs.services import create_run
from workers.documents.workload import Workload as Document

KEY = "sk-kept-secret-0123456789"
URL = "https://models.example.com/v1"
ENDPOINT = {"url": URL, "model": "theirs", "hardware": "2 A100", "key": KEY}
PROMISED = {"model": "tiny-llama", "objectives": [{"metric": "ttf_n", "n": 64, "limit": 1000}]}


@pytest.fixture(autouse=True)
def _allowed(settings):
    settings.ENDPOINT_ALLOWED_HOSTS = ["models.example.com"]
    settings.ENDPOINT_PRIVATE_HOSTS = []


def post(client, endpoint, **headers):
    body = PROMISED | {"endpoint": endpoint}
    return client.post("/api/v1/workloads", body, headers=headers)


@pytest.fixture
def named(organisation, engineer):
    """A run whose workload names an endpoint."""
    workload = create_workload(organisation, engineer, Document.model_validate(PROMISED | {"endpoint": ENDPOINT}))
    return create_run(workload, engineer)


def claim(worker, run, stage="verify"):
    """The worker holds this stage of the run."""
    Run.objects.filter(pk=run.pk).update(stage=stage, published_at=None)
    key = {"run_id": str(run.pk), "stage": stage, "attempt": 1}
    answer = worker("claim", {**key, "worker": "w"})
    assert answer.status_code == 200, answer.content
    return key, answer


def test_the_key_is_kept_encrypted_and_no_page_answer_or_row_shows_it(api, browser, engineer, admin):
    client = api(engineer)
    made = post(client, ENDPOINT)
    assert made.status_code == 201, made.content
    shown = {"url": URL, "model": "theirs", "api": "completions", "hardware": "2 A100"}
    assert made.json()["document"]["endpoint"] == shown
    row = Workload.objects.get()
    assert row.endpoint_key
    run = create_run(row, engineer)
    addresses = ["workloads", f"workloads/{row.pk}", *(f"runs/{run.pk}{part}" for part in ("", "/result", "/events"))]
    answers = [client.get(f"/api/v1/{address}").content.decode() for address in (*addresses, "openapi.json")]
    schemas = json.loads(answers[-1])["components"]["schemas"]
    assert schemas["Endpoint"]["properties"]["key"]["writeOnly"]
    addresses = (f"/workloads/{row.pk}/", f"/workloads/new/?from={row.pk}", f"/runs/{run.pk}/", "/audit/")
    pages = [browser(admin).get(address).content.decode() for address in addresses]
    assert "theirs" in pages[0]
    rows = serializers.serialize("json", [row, *Run.objects.all(), *Entry.objects.all(), *run.events.all()])
    assert KEY not in "".join([*answers, *pages, rows])
    assert row.endpoint_key not in "".join([*answers, *pages])


def test_neither_the_audit_log_nor_a_kept_answer_holds_the_key_of_a_named_endpoint(api, browser, engineer, admin):
    assert post(api(engineer), ENDPOINT).status_code == 201
    entry = Entry.objects.get(action=Action.ENDPOINT_NAMED)
    assert (entry.actor, entry.subject_id) == (engineer, str(Workload.objects.get().pk))
    assert entry.details == {"host": "models.example.com"}
    page = browser(admin).get("/audit/").content.decode()
    assert ("Named an endpoint in a workload" in page, "models.example.com" in page, KEY in page) == (True, True, False)
    api(engineer).post("/api/v1/workloads", PROMISED)
    assert Workload.objects.count() == 2
    assert Entry.objects.filter(action=Action.ENDPOINT_NAMED).count() == 1, "only workloads that name one"
    client = api(engineer)
    for endpoint, status in ((ENDPOINT, 201), ({**ENDPOINT, "key": 123_456_789}, 422)):
        answer = post(client, endpoint, **{"Idempotency-Key": f"once {status}"})
        assert answer.status_code == status, answer.content
    kept = b"".join(bytes(item.body) for item in IdempotentRequest.objects.all())
    assert all(words in kept for words in (b"theirs", b"endpoint.key"))
    assert not any(words in kept for words in (KEY.encode(), b"123456789"))


@pytest.mark.parametrize(
    ("endpoint", "field", "reason"),
    [
        ({"url": "https://other.example.com/v1"}, "endpoint.url", "The operator does not allow other.example.com"),
        ({"url": "http://models.example.com/v1"}, "endpoint.url", "The address must begin with https://."),
        ({"url": "https://169.254.169.254/v1"}, "endpoint.url", "169.254.169.254 is an address inside a network"),
        ({"url": "https://me:pw@models.example.com"}, "endpoint.url", "neither a login nor a fragment"),
        ({"url": "https://models.example.com/v1?key=1"}, "endpoint.url", "without a query"),
        ({"url": "models.example.com"}, "endpoint.url", "not an address such as https://models.example.com/v1"),
        ({"api": "embeddings"}, "endpoint.api", "generates tokens; ask for completions or chat"),
        ({"key": "två\n"}, "endpoint.key", "holds characters that no key has"),
        ({"model": "a\x07b"}, "endpoint.model", "control characters are not allowed"),
        ({"model": "  "}, "endpoint.model", "spaces alone are not enough"),
    ],
)
def test_what_cannot_be_an_endpoint_is_refused_beside_its_field(api, engineer, endpoint, field, reason):
    answer = post(api(engineer), ENDPOINT | endpoint)
    assert answer.status_code == 422
    result = {row["field"]: row["reason"] for row in answer.json()["errors"]}
    assert reason in result[field]
    assert not Workload.objects.exists()


def test_without_a_setting_no_host_is_allowed_and_a_star_is_every_public_one(api, engineer, settings):
    settings.ENDPOINT_ALLOWED_HOSTS = []
    assert "allows no endpoints" in post(api(engineer), ENDPOINT).json()["detail"]
    settings.ENDPOINT_ALLOWED_HOSTS = ["*"]
    assert post(api(engineer), ENDPOINT).status_code == 201
    inside = ENDPOINT | {"url": "http://10.0.0.5:8000/v1"}
    assert post(api(engineer), inside).status_code == 422
    settings.ENDPOINT_PRIVATE_HOSTS = ["10.0.0.5:8000"]
    assert post(api(engineer), inside).status_code == 201


@pytest.mark.urls("workbench.worker_site.urls")
def test_only_the_worker_that_holds_verify_gets_the_key(worker, named, settings):
    key, claimed = claim(worker, named)
    assert KEY not in claimed.content.decode(), "the stage's process reads this document"
    answer = worker("endpoint", key)
    assert answer.json() == {"key": KEY, "inside": [], "refused": ""}
    assert answer["Cache-Control"] == "no-store"
    assert worker("endpoint", {**key, "attempt": 2}).status_code == 409
    settings.ENDPOINT_ALLOWED_HOSTS = ["elsewhere.example.com"]
    told = worker("endpoint", key).json()
    assert told["key"] == ""
    assert "does not allow models.example.com" in told["refused"]
    worker.client.defaults["HTTP_CLAIM_TOKEN"] = "another"
    assert worker("endpoint", key).status_code == 409


@pytest.mark.urls("workbench.worker_site.urls")
def test_another_stage_gets_none_and_a_key_that_cannot_be_read_any_more_is_a_sentence(worker, named):
    key, _ = claim(worker, named, "baseline")
    told = worker("endpoint", key).json()
    assert (told["key"], told["refused"]) == ("", "The endpoint is measured beside verify, load, not baseline.")
    Workload.objects.update(endpoint_key="of another SECRET_KEY")
    Run.objects.update(state="queued")
    key, _ = claim(worker, named)
    assert "SECRET_KEY" in worker("endpoint", key).json()["refused"]


FORM = {"endpoint.url": URL, "endpoint.model": "theirs", "endpoint.api": "completions", "endpoint.key": KEY}


SLA = json.dumps({"objectives": PROMISED["objectives"], "endpoint": ENDPOINT})


def kept_key(row):
    return cipher(KEYS).decrypt(row.endpoint_key.encode()).decode()


def carried_in(page):
    return re.search(r'name="key_carried" value="([^"]+)"', page)[1]


@pytest.mark.parametrize("wrong", [{"endpoint.url": "nowhere"}, {"sla": SLA, "do": "read"}], ids=["wrong", "read"])
def test_a_form_that_comes_back_keeps_the_key_and_never_shows_it(browser, engineer, admin, wrong):
    sent = fields(PROMISED) | FORM
    page = browser(engineer).post("/workloads/new/", (fields(PROMISED) if "sla" in wrong else sent) | wrong)
    text = page.content.decode()
    if "sla" in wrong:
        assert 'placeholder="kept from before"' in text
    else:
        assert page.status_code == 422
        assert all(part in text for part in ('id="f-endpoint-url-error"', 'value="nowhere"'))
    assert KEY not in text
    again = sent | {"endpoint.key": "", "key_carried": carried_in(text)}
    assert browser(engineer).post("/workloads/new/", again).status_code == 302
    assert kept_key(Workload.objects.get()) == KEY
    assert browser(admin).post("/workloads/new/", again).status_code == 302
    assert [item.endpoint_key == "" for item in Workload.objects.all()] == [True, False], "of use for its typist alone"
    Workload.objects.all().delete()
    emptied = again | {"endpoint.url": "", "endpoint.model": ""}
    assert browser(engineer).post("/workloads/new/", emptied).status_code == 302
    row = Workload.objects.get()
    assert (row.document.get("endpoint"), row.endpoint_key) == (None, "")


def test_a_copy_takes_the_key_to_the_same_address_and_to_no_other(browser, engineer, foreigner, named, settings):
    settings.ENDPOINT_ALLOWED_HOSTS = ["*"]
    source = named.workload
    page = browser(engineer).get(f"/workloads/new/?from={source.pk}").content.decode()
    assert f'name="from" value="{source.pk}"' in page
    sent = fields(PROMISED) | FORM | {"endpoint.key": "", "from": str(source.pk)}
    for client, url, key in (
        (browser(engineer), URL, KEY),
        (browser(engineer), "https://of-the-member.example.com/v1", ""),
        (browser(foreigner), URL, ""),
    ):
        assert client.post("/workloads/new/", sent | {"endpoint.url": url}).status_code == 302
        row = Workload.objects.order_by("-created_at").first()
        assert (row.endpoint_key and kept_key(row)) == key
