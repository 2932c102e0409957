"""The upload page and the workload form in a real Chromium."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.kernels.model_folders import safetensors, weights_of
from tests.workbench.intake.conftest import CONFIG, sha

pytestmark = [pytest.mark.browser, pytest.mark.slow]
WIDE = CONFIG | {"vocab_size": 150_000}  # its weights take two chunks
SENT_MS = 300_000


@pytest.fixture
def page(chromium, site, session):
    """Logged in; answers of 4xx are expected here, errors of the scripts are not."""
    errors: list[str] = []
    context = chromium.new_context(base_url=site.url, storage_state=session)
    opened = context.new_page()
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    assert not errors


@pytest.fixture
def folder(tmp_path):
    """A model's directory, with files and folders that are not sent."""
    directory = tmp_path / "my-model"
    (directory / ".git").mkdir(parents=True)
    (directory / ".git" / "config").write_text("x")
    (directory / "pytorch_model.bin").write_bytes(b"x")
    (directory / "config.json").write_text(json.dumps(WIDE))
    (directory / "model.safetensors").write_bytes(safetensors(weights_of(WIDE)))
    return directory


def listed(page: Page, what: str) -> list[Any]:
    """What the API lists under /api/v1/<what>."""
    return list(page.request.get(f"/api/v1/{what}").json()["items"])


def upload(page: Page, folder: Path) -> None:
    page.goto("/models/upload/")
    page.get_by_label("or a folder").set_input_files(folder)
    expect(page.get_by_role("row")).to_have_count(3)
    expect(page.get_by_text("Left out, as the model is read without")).to_contain_text(".git/, pytorch_model.bin")
    page.get_by_role("button", name="Upload", exact=True).click()


def test_a_folder_goes_up_although_the_connection_breaks_and_is_taken_up_again_after_the_page_was_left(page, folder):
    broken: list[str] = []

    def break_one(route: Route) -> None:
        request = route.request
        if request.method == "PATCH" and request.headers["upload-offset"] == str(8 * 2**20) and not broken:
            broken.append(request.url)
            route.abort("connectionreset")
        else:
            route.continue_()

    page.route("**/api/v1/uploads/**", break_one)

    def refuse_the_end(route: Route) -> None:
        expect(page.get_by_role("button", name="Pause")).to_be_hidden()
        route.abort()

    page.route("**/api/v1/uploads/*/finish", refuse_the_end)
    upload(page, folder)
    expect(page.get_by_role("alert")).to_contain_text("Upload again to go on", timeout=SENT_MS)
    assert broken
    page.unroute("**/api/v1/uploads/*/finish")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    upload(page, folder)
    page.wait_for_url("**/models/*-*/", timeout=SENT_MS)
    expect(page.get_by_role("heading", name="my-model")).to_be_visible()
    assert "PATCH" not in sent
    assert listed(page, "uploads") == []
    stored = {file["path"]: file["sha256"] for file in listed(page, "models")[0]["files"]}
    assert stored == {name: sha((folder / name).read_bytes()) for name in ("config.json", "model.safetensors")}
    upload(page, folder.rename(folder.with_name("the-same")))
    page.wait_for_url("**/models/*-*/?known", timeout=SENT_MS)
    expect(page.get_by_role("heading", name="my-model")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("These very files were here already, under the name above.")


def test_bad_files_are_refused_with_a_sentence_when_they_are_chosen_or_dropped_and_nothing_stays(page, folder):
    (folder / "model.safetensors").rename(folder / "tf_model.h5")
    before = listed(page, "models")
    page.goto("/models/upload/")
    page.get_by_label("or a folder").set_input_files(folder)
    for name in ("pytorch_model.bin: this is a pickle format", "tf_model.h5: .h5 weights are not taken"):
        expect(page.get_by_role("alert")).to_contain_text(name)
    expect(page.get_by_role("button", name="Upload", exact=True)).to_be_disabled()
    page.goto("/models/upload/")
    page.evaluate(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(['{"model_type": "own", "auto_map": {"A": "b.C"}}'], "config.json"));
          const zone = document.getElementById("upload-zone");
          zone.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
        }"""
    )
    page.get_by_role("button", name="Upload", exact=True).click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("config.json: auto_map: remote code is not run", timeout=SENT_MS)
    beside = page.get_by_role("row", name="config.json").locator(".error")
    expect(beside).to_contain_text("auto_map: remote code is not run")
    assert listed(page, "uploads") == []
    assert listed(page, "models") == before


def test_a_bad_config_is_refused_and_a_corrected_one_is_taken(page, folder):
    (folder / "added_tokens.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(safetensors(weights_of(CONFIG)))
    (folder / "config.json").write_text(json.dumps({key: CONFIG[key] for key in CONFIG.keys() - {"vocab_size"}}))
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "PATCH" else None)
    page.goto("/models/upload/")
    page.get_by_label("or a folder").set_input_files(folder)
    page.get_by_role("button", name="Upload", exact=True).click()
    beside = page.get_by_role("row", name="config.json").locator(".error")
    expect(beside).to_contain_text("vocab_size: ", timeout=SENT_MS)
    expect(page.get_by_role("alert")).to_contain_text("config.json: vocab_size: ")
    expect(page.get_by_role("button", name="Discard")).to_be_hidden()
    assert sent[0].rpartition("/")[2] == "1", "config.json, the second of the files, goes first"
    assert listed(page, "uploads") == []
    (folder / "config.json").write_text(json.dumps(CONFIG | {"bos_token_id": 9}))
    page.get_by_label("or a folder").set_input_files(folder)
    page.get_by_role("button", name="Upload", exact=True).click()
    page.wait_for_url("**/models/*-*/", timeout=SENT_MS)


def test_the_form_by_keyboard_with_an_error_on_the_way(page):
    """The form prefers the first GPU class with a worker and the first precision, in the order of the document."""
    before = listed(page, "workloads")
    page.goto("/workloads/new/")
    for name, order in (("gpu_classes", ["h200", "h100", "cpu"]), ("precisions", ["bf16", "fp16", "fp32", "int8"])):
        boxes = page.locator(f'[name="constraints.{name}"]:checked')
        assert [box.get_attribute("value") for box in boxes.all()] == order
    page.locator("button.button-primary", has_text="Start the run").click()
    expect(page.locator(".field:has([name='model']) > .error")).to_have_text("is required")
    page.get_by_role("combobox", name="Model").select_option("tiny-llama")
    expect(page.get_by_label("Limit")).to_have_accessible_description("In ms, at most.")
    page.get_by_label("Metric").first.select_option("throughput")
    expect(page.get_by_label("Limit")).to_have_accessible_description("In tokens or images per second, at least.")
    page.get_by_label("Limit").fill("-5")
    page.get_by_role("button", name="Add an objective").press("Enter")
    expect(page.get_by_role("group", name="Objective 2").get_by_label("Metric")).to_be_focused()
    page.get_by_role("button", name="Remove objective 2").press("Enter")
    expect(page.get_by_role("group", name="Objective 2")).to_have_count(0)
    page.get_by_label("Limit").press("Enter")
    expect(page.get_by_text("should be greater than 0, not -5", exact=True)).to_be_visible()
    limit, error = page.get_by_label("Limit"), page.locator(".field:has([name='objectives[0].limit']) > .error")
    expect(limit).to_be_focused()
    expect(page.get_by_role("combobox", name="Model")).to_have_value("tiny-llama")
    expect(limit).to_have_attribute("aria-invalid", "true")
    limit.fill("100")
    expect(error).to_be_hidden()
    expect(error).to_have_text("")
    expect(limit).not_to_have_attribute("aria-invalid", "true")
    assert listed(page, "workloads") == before
    page.locator("details:has([name='constraints.minutes'])").evaluate_all(
        "(all) => { for (const e of all) e.open = true; }"
    )
    for gpu_class in ("h200", "cpu"):
        page.locator(f'[name="constraints.gpu_classes"][value="{gpu_class}"]').uncheck()
    page.locator("button.button-primary", has_text="Start the run").click()
    page.wait_for_url("**/runs/*/")
    expect(page.get_by_text("Waiting for a worker of class h100").first).to_be_visible()


def test_a_recording_is_handed_in_from_the_form_and_a_broken_line_is_named(page, tmp_path):
    calls = tmp_path / "calls.csv"
    calls.write_text("arrival_s,prompt_tokens,output_tokens\n0,8,4\n40,eight,4\n")
    page.goto("/workloads/new/")
    page.get_by_role("combobox", name="Model").select_option("tiny-llama")
    page.get_by_text("Replay recorded traffic under load").click()
    page.get_by_label("Hand in a file").set_input_files(calls)
    error = page.locator("#recording-error")
    expect(error).to_have_text("calls.csv: line 3: prompt_tokens is no number: 'eight'", timeout=SENT_MS)
    calls.write_text("arrival_s,prompt_tokens,output_tokens\n0,8,4\n40,8,4\n")
    page.get_by_label("Hand in a file").set_input_files(calls)
    expect(page.get_by_text("calls.csv is handed in: 2 requests over 40 s.")).to_be_visible(timeout=SENT_MS)
    expect(error).to_be_hidden()
    chosen = sha(calls.read_bytes())
    expect(page.get_by_label("Recording", exact=True)).to_have_value(chosen)
    expect(page.get_by_label("Prompt lengths under load")).to_have_value("recorded")
    expect(page.get_by_label("Requests per second, at most")).to_be_hidden()
    page.get_by_label("Times as fast as recorded, at most").fill("20")
    page.get_by_label("Users under load, at most").fill("4")
    page.get_by_role("button", name="Start the run").last.click()
    expect(page.get_by_text("calls.csv lasts 40 s, which 20 times as fast is 2 s").first).to_be_visible()
    expect(page.get_by_label("Recording", exact=True)).to_have_value(chosen)
    assert [item["sha256"] for item in listed(page, "recordings")] == [chosen]
    assert listed(page, "uploads") == []


def test_a_form_that_is_on_its_way_is_not_sent_again(page):
    page.goto("/workloads/new/")
    posted: list[str] = []
    form, send = "**/workloads/new/", "() => document.getElementById('workload-form').requestSubmit()"
    page.on("request", lambda request: posted.append(request.method) if request.method == "POST" else None)
    page.route(form, lambda route: route.fulfill(status=204))
    with page.expect_request(form):
        page.evaluate(f"() => [1, 2, 3].forEach({send})")
    page.evaluate(send)
    page.evaluate("() => window.dispatchEvent(new PageTransitionEvent('pageshow'))")  # back from the answer
    with page.expect_request(form):
        page.evaluate(send)
    assert posted == ["POST", "POST"]
