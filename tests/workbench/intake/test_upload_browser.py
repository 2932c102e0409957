"""The upload page and the workload form in a real Chromium."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect, sync_playwright

from tests.workbench.conftest import PASSWORD
from tests.workbench.intake.conftest import CONFIG, safetensors, sha
from workbench.accounts.models import User
from workbench.intake.models import Model, Upload
from workbench.runs.models import Run
from workers.documents.workload import Constraints

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
WIDE = CONFIG | {"vocab_size": 150_000}
"""A model whose weights take two chunks."""


@pytest.fixture
def page(live_server: Any, engineer: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """A page of an engineer who is logged in; errors of its scripts fail the test."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    errors: list[str] = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        opened = chromium.new_context(base_url=live_server.url).new_page()
        opened.on("pageerror", lambda error: errors.append(str(error)))
        opened.goto("/login/")
        opened.get_by_label("Email").fill(engineer.email)
        opened.get_by_label("Password").fill(PASSWORD)
        opened.keyboard.press("Enter")
        opened.wait_for_url("**/workloads/")
        yield opened
        chromium.close()
    assert not errors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's directory, with a hidden folder that is not sent."""
    directory = tmp_path / "my-model"
    (directory / ".git").mkdir(parents=True)
    (directory / ".git" / "config").write_text("x")
    (directory / "config.json").write_text(json.dumps(WIDE))
    (directory / "model.safetensors").write_bytes(safetensors(WIDE))
    return directory


def test_a_folder_goes_up_although_the_connection_breaks(page: Page, folder: Path) -> None:
    broken: list[str] = []

    def break_one(route: Route) -> None:
        if route.request.method == "PATCH" and route.request.headers["upload-offset"] == str(8 * 2**20) and not broken:
            broken.append(route.request.url)
            route.abort("connectionreset")
        else:
            route.continue_()

    page.route("**/api/v1/uploads/**", break_one)
    page.goto("/models/upload/")
    page.get_by_label("or a folder").set_input_files(folder)
    expect(page.get_by_role("row")).to_have_count(3)
    page.get_by_role("button", name="Upload", exact=True).click()
    page.wait_for_url("**/models/*-*/", timeout=60_000)
    expect(page.get_by_role("heading", name="my-model")).to_be_visible()
    assert broken
    stored = {file.path: file.sha256 for file in Model.objects.get().facts.files}
    assert stored == {path.name: sha(path.read_bytes()) for path in folder.iterdir() if path.is_file()}


def test_dropped_files_are_refused_with_a_sentence_and_nothing_stays(page: Page) -> None:
    page.goto("/models/upload/")
    page.evaluate(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(['{"model_type": "llama", "auto_map": {"A": "b.C"}}'], "config.json"));
          const zone = document.getElementById("upload-zone");
          zone.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
        }"""
    )
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("config.json: auto_map: remote code is not run", timeout=30_000)
    beside = page.get_by_role("row", name="config.json").locator(".error")
    expect(beside).to_contain_text("auto_map: remote code is not run")
    assert not Upload.objects.exists()
    assert not Model.objects.exists()


def test_an_upload_is_taken_up_again_after_the_page_was_left(page: Page, folder: Path) -> None:
    page.route("**/api/v1/uploads/*/finish", lambda route: route.abort())
    page.goto("/models/upload/")
    page.get_by_label("or a folder").set_input_files(folder)
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Upload again to go on", timeout=60_000)
    page.unroute("**/api/v1/uploads/*/finish")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    page.goto("/models/upload/")
    page.get_by_label("or a folder").set_input_files(folder)
    page.get_by_role("button", name="Upload", exact=True).click()
    page.wait_for_url("**/models/*-*/", timeout=60_000)
    assert "PATCH" not in sent


def test_a_workload_by_keyboard_with_an_error_on_the_way(page: Page) -> None:
    page.goto("/workloads/new/")
    page.get_by_role("combobox", name="Model").select_option("tiny-llama")
    page.get_by_label("Limit").first.fill("-5")
    page.get_by_role("button", name="Add an objective").press("Enter")
    expect(page.get_by_role("group", name="Objective 2").get_by_label("Metric")).to_be_focused()
    page.get_by_role("button", name="Remove objective 2").press("Enter")
    expect(page.get_by_role("group", name="Objective 2")).to_have_count(0)
    page.get_by_label("Limit").press("Enter")
    expect(page.get_by_text("should be greater than 0, not -5")).to_be_visible()
    expect(page.get_by_label("Limit")).to_be_focused()
    assert not Run.objects.exists()
    page.get_by_label("Limit").fill("5000")
    page.get_by_label("Limit").press("Enter")
    page.wait_for_url("**/runs/*/")
    sla = Run.objects.get().workload.sla
    assert sla.objectives[0].limit == 5000
    assert sla.constraints == Constraints(), "what is preferred keeps its order"
