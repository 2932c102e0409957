"""The form of a workload tells while one types, and outlives the login."""

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PASSWORD, log_in

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_the_form_tells_while_one_types_and_keeps_it_during_a_look_at_the_models(open_page):
    page = open_page()
    page.goto("/workloads/new/")
    checks, limit = page.locator("#checks"), page.locator('[name="objectives[0].limit"]')
    expect(checks).to_contain_text("Still missing: Model.")
    page.get_by_label("Model required").select_option("llama-3.2-1b")
    expect(checks).to_contain_text("needs about")
    limit.fill("5")
    expect(checks).to_contain_text("is impossible on")
    limit.fill("1000")
    expect(checks).to_contain_text("within 1,000 ms")
    factor = page.locator('[name="objectives[0].at_least_faster"]')
    factor.fill("2")
    expect(limit).to_have_value("")
    expect(checks).to_contain_text("at least 2 times faster than today")
    limit.fill("1000")
    expect(factor).to_have_value("")
    page.locator('[name="traffic.prompt_tokens"]').fill("77")
    page.get_by_role("link", name="what is known of each").click()
    expect(page.get_by_role("heading", name="Models", level=1)).to_be_visible()
    page.go_back()
    expect(limit).to_have_value("1000")
    expect(page.locator('[name="traffic.prompt_tokens"]')).to_have_value("77")
    expect(checks).to_contain_text("within 1,000 ms")
    expect(checks).to_contain_text("A request: 77 prompt")
    page.get_by_role("button", name="Add an objective").click()
    expect(page.get_by_text("Objective 2", exact=True)).to_be_visible()
    expect(limit).to_have_value("1000")


def test_a_file_that_is_too_large_is_refused_before_it_takes_the_form_with_it(open_page):
    page = open_page()
    page.goto("/workloads/new/")
    page.locator('[name="objectives[0].limit"]').fill("77")
    sections = {"sla_file": "Paste or upload an SLA file", "quality_text_file": "Advanced: constraints, text"}
    for name, section in sections.items():
        page.get_by_text(section).click()
        file = page.locator(f'input[name="{name}"]')
        file.set_input_files({"name": "calls.txt", "mimeType": "text/plain", "buffer": b"x" * 2_000_000})
        expect(page.locator(f"#{name}-error")).to_contain_text("calls.txt was not taken: it has 2,000,000 bytes")
        expect(file).to_have_value("")
    page.get_by_role("button", name="Add an objective").click()
    expect(page.get_by_text("Objective 2", exact=True)).to_be_visible()
    expect(page.locator('[name="objectives[0].limit"]')).to_have_value("77")


@pytest.mark.usefixtures("gallery")
def test_what_was_typed_outlives_the_login_and_a_switch_in_another_tab(chromium, site):
    person = replace(site, email="two@gallery.test", password=PASSWORD)
    context = chromium.new_context(base_url=site.url)
    page, other = context.new_page(), context.new_page()
    log_in(page, person)
    page.goto("/workloads/new/")
    page.locator('[name="objectives[0].limit"]').fill("12 apples")
    page.locator('[name="name"]').fill("Half typed")
    context.clear_cookies(name="sessionid")
    told = page.get_by_role("alert").filter(has_text="You are logged out")
    page.get_by_label("Model required").select_option("llama-3.2-1b")
    expect(told).to_contain_text("no longer kept up to date")
    expect(page.get_by_label("Email"), "no login page within the page").to_have_count(0)
    page.locator("button.button-primary", has_text="Start the run").click()
    expect(told).to_contain_text("What you typed is still here")

    log_in(other, person)
    first = page.locator("#organisation").input_value()
    second = other.locator("#organisation option:not([selected])").get_attribute("value")
    other.locator("#organisation").select_option(second)
    other.get_by_role("button", name="Switch").click()
    expect(other.locator("#organisation")).to_have_value(second)
    page.locator("button.button-primary", has_text="Start the run").click()
    expect(page.get_by_role("alert")).to_contain_text("this page is of First customer")
    page.get_by_role("button", name="Switch back").click()
    expect(page.locator("#told")).to_have_count(0)
    page.locator("button.button-primary", has_text="Start the run").click()
    expect(page.get_by_text("nothing you entered is lost")).to_be_visible()
    expect(page.locator('[name="name"]')).to_have_value("Half typed")
    assert page.locator("#organisation").input_value() == first
    context.close()
