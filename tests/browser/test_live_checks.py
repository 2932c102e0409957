"""The form of a workload tells while one types."""

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_the_form_tells_while_one_types(open_page):
    page = open_page()
    page.goto("/workloads/new/")
    checks = page.locator("#checks")
    expect(checks).to_contain_text("Still missing: Model.")
    page.get_by_label("Model required").select_option("llama-3.2-1b")
    expect(checks).to_contain_text("needs about")
    page.locator('[name="objectives[0].limit"]').fill("1000")
    expect(checks).to_contain_text("within 1,000 ms")
    page.locator('[name="objectives[0].limit"]').fill("5")
    expect(checks).to_contain_text("is impossible on")
    page.get_by_role("button", name="Add an objective").click()
    expect(page.get_by_text("Objective 2", exact=True)).to_be_visible()
    expect(page.locator('[name="objectives[0].limit"]')).to_have_value("5")
