"""Bring-ups: handed in by page and API, refused in a sentence, shown, compared, priced, and nobody else's."""

import json
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from tests import sample_bring_up
from workbench.audit.models import Action, Entry
from workbench.bring_ups import services
from workbench.bring_ups.models import BringUpRow

pytestmark = pytest.mark.django_db


def content():
    """The measured document as JSON."""
    return json.loads(sample_bring_up.FILE.read_text("utf-8"))


def hand_in(client: Any, raw: bytes) -> Any:
    """Posts the file as the form does."""
    return client.post("/bring-ups/", {"file": SimpleUploadedFile("bring-up.json", raw)}, follow=True)


def text(answer: Any) -> str:
    """The page's words."""
    return " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).split())


def test_an_engineer_hands_in_what_the_command_wrote(browser, engineer, account, organisation):
    page = hand_in(browser(engineer), sample_bring_up.FILE.read_bytes())
    row = BringUpRow.objects.get()
    result = row.document
    assert page.redirect_chain[-1][0] == f"/bring-ups/{row.id}/"
    words = text(page)
    assert result == sample_bring_up.measured()
    for part in (
        f"{row.passed} proofs passed, 0 failed",
        "Gaps of tiny-llama",
        "attention decode 1×4h×32 1×192",
        "no variant of ours serves it",
        "this variant is written for Hopper (sm_90a)",
        "torch_rope, a peer",
    ):
        assert part in words
    assert result.next_steps[0].startswith("Write a variant for op=rope batch=1 q_len=1")
    assert "op=" not in words
    assert "The price book has no price" not in words, "a CPU needs none"
    entry = Entry.objects.get(action=Action.BRING_UP_ADDED)
    assert (entry.actor_email, entry.subject_id, entry.details) == (engineer.email, str(row.id), {"gpu_class": "cpu"})
    assert f"/bring-ups/{row.id}/" in browser(account).get("/bring-ups/").content.decode()
    assert hand_in(browser(account), b"{}").status_code == 403


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"# Bring-up of a GPU", "The file is no JSON document (line 1, column 1: broken JSON (Expecting value)); "),
        (b"[]", "The file is no bring-up: should be an object with named fields; `python -m kernels bring-up` writes"),
        (b'{"gpu_class": "h200"}', "environment: is required (and 12 more); `python -m kernels bring-up` writes"),
        (b'{"a": 1, "a": 2}', "The file is no JSON document (a: the key is there twice); "),
        (b'{"a": "\\u0000"}', "The file has the character NUL in a text."),
        (b" " * (services.MAX_BYTES + 1), "The document has 786,433 bytes; a bring-up may have 786,432."),
    ],
)
def test_another_file_is_refused_in_a_sentence(browser, engineer, raw, sentence):
    answer = hand_in(browser(engineer), raw)
    assert answer.status_code == 422
    assert sentence in text(answer).replace("&#x27;", "'")
    assert not BringUpRow.objects.exists()


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("version",), 2, "version: should be 1, not 2"),
        (("minutes",), float("nan"), "minutes: should be a number"),
        (("surprise",), 1, "surprise: is not a known field"),
        (("environment", "at"), "2026-11-23T10:00:00", "environment.at: should have timezone info"),
        (("environment", "at"), "0001-01-01T00:00:00+14:00", "environment.at: should be greater than 2000-01-01"),
        (("environment", "gpu_class"), "../x", "environment.gpu_class: should match pattern"),
        (("entry", "sms"), -1, "entry: sms is -1"),
        (("proofs", 0, "passed"), 10**9, "proofs[0].passed: should be less than 1000000"),
        (("models", 0, "gaps", 0, "kind"), "big", "models[0].gaps[0].kind: should be 'missing', 'behind' or 'above'"),
        (("races",), [{"case": "c"}] * 2001, "races: should have at most 2000 items"),
    ],
)
def test_the_api_names_the_field_that_is_wrong(api, engineer, path, value, sentence):
    document = content()
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    answer = api(engineer).post("/api/v1/bring-ups", json.dumps(document))
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(sentence)
    assert not BringUpRow.objects.exists()


def test_the_api_gives_back_what_it_got_deletes_it_and_takes_so_many(api, browser, engineer, account, settings):
    client = api(engineer)
    made = client.post("/api/v1/bring-ups", content())
    assert made.status_code == 201
    address = f"/api/v1/bring-ups/{made.json()['id']}"
    assert client.get("/api/v1/bring-ups").json()["items"] == [made.json()]
    assert client.get(address).json()["document"] == sample_bring_up.measured().model_dump(mode="json")
    large = content() | {"next_steps": ["x" * services.MAX_BYTES]}
    assert client.post("/api/v1/bring-ups", large).status_code == 413
    assert browser(account).post(f"/bring-ups/{made.json()['id']}/delete/").status_code == 403
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404
    assert Entry.objects.filter(action=Action.BRING_UP_DELETED).count() == 1
    settings.ORGANISATION_BRING_UPS = 1
    answers = [client.post("/api/v1/bring-ups", content()) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 409]
    page = hand_in(browser(engineer), sample_bring_up.FILE.read_bytes())
    assert "the organisation has 1 bring-ups" in text(page)
    browser(engineer).post(f"/bring-ups/{BringUpRow.objects.get().id}/delete/")
    assert not BringUpRow.objects.exists()


def test_two_stand_side_by_side_and_a_foreign_one_does_not(browser, organisation, engineer, foreigner):
    cpu = sample_bring_up.row(organisation, engineer)
    gpu = sample_bring_up.row(organisation, engineer, sample_bring_up.made_up())
    address = f"/bring-ups/compare/?a={cpu.id}&b={gpu.id}"
    words = text(browser(engineer).get(address))
    for part in ("read, TB/s", "µs – 1.40 –", "sdpa_math passes fails", "attention decode 1×4h×32 1×192"):
        assert part in words
    assert browser(foreigner).get(address).status_code == 404
    theirs = sample_bring_up.row(foreigner.memberships.get().organisation, foreigner)
    assert browser(engineer).get(f"/bring-ups/compare/?a={cpu.id}&b={theirs.id}").status_code == 404
    assert browser(engineer).get("/bring-ups/compare/?a=nothing").status_code == 404
    for page in ("/bring-ups/", "/bring-ups/compare/", f"/bring-ups/{cpu.id}/"):
        assert str(theirs.id) not in browser(engineer).get(page).content.decode()


def test_a_gpu_without_a_price_leads_to_the_price_book_that_asks_for_it(browser, organisation, engineer, account):
    gpu = sample_bring_up.row(organisation, engineer, sample_bring_up.made_up())
    page, client = f"/bring-ups/{gpu.id}/", browser(account)
    link = "/prices/?gpu=x900&amp;name=NVIDIA%20X900"
    assert link in browser(engineer).get(page).content.decode()
    asked = client.get(link.replace("&amp;", "&")).content.decode()
    assert "Enter what an hour of NVIDIA X900 costs" in asked
    fields = {"name": "Contract", "date": "2026-11-23", "source": "Our contract"}
    prices = {f"{value}_{column}": "2" for value in ("h200", "x900") for column in ("low", "typical", "high")}
    assert client.post("/prices/?gpu=x900&name=NVIDIA%20X900", fields | prices).status_code == 302
    assert link not in browser(engineer).get(page).content.decode()
    kept = client.get("/prices/").content.decode()
    assert 'name="x900_low"' in kept, "the class stays in the form of the next book"
    assert 'name="../x_low"' not in client.get("/prices/?gpu=../x").content.decode()
