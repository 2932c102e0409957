"""The text that a workload names for measuring quality: the same by form, file and API, and refused by its line."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils.html import escape

from tests.workbench.intake.workload_documents import GOOD, Clients, fields, post, shown_errors
from workbench.accounts.models import User
from workbench.intake.models import Workload

TEXT = '{"text": "What they say."}\n{"text": "What they answer."}'
CRLF = TEXT.replace("\n", "\r\n")


@pytest.mark.parametrize("way", ["form", "file", "api"])
def test_a_workload_names_the_text_that_quality_is_measured_on(
    api: Clients, browser: Any, engineer: User, model_files: dict[str, bytes], upload_model: Any, way: str
) -> None:
    digest = upload_model(api(engineer), model_files).json()["content_digest"]
    if way == "api":
        assert post(api(engineer), GOOD | {"model": digest, "quality_text": TEXT}).status_code == 201
    elif way == "form":
        browser(engineer).post("/workloads/new/", fields(GOOD | {"model": digest}) | {"quality_text": CRLF})
    else:
        file = SimpleUploadedFile("text.jsonl", TEXT.encode())
        browser(engineer).post("/workloads/new/", fields(GOOD | {"model": digest}) | {"quality_text_file": file})
    assert Workload.objects.get().sla.quality_text == TEXT


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("words", "llama-3.2-1b has no tokenizer.json, which the text takes"),
        ('{"text": "a"}\n{"text": 5}', "line 2 needs a text, or messages with role and content"),
        ("x" * 131_073, "should have at most 131072 characters"),
    ],
)
def test_a_text_that_cannot_be_used_is_refused_and_not_lost(
    api: Clients, browser: Any, engineer: User, text: str, reason: str
) -> None:
    problem = post(api(engineer), GOOD | {"quality_text": text}).json()
    assert problem["errors"][0]["field"] == "quality_text"
    assert reason in problem["errors"][0]["reason"]
    page = browser(engineer).post("/workloads/new/", fields(GOOD) | {"quality_text": text}).content.decode()
    assert reason in " ".join(shown_errors(page))
    assert escape(text) in page
    assert not Workload.objects.exists()
