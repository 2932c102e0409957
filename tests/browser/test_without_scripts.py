"""Forms in a browser that runs no scripts."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import log_in

pytestmark = pytest.mark.browser


def test_a_workload_outlives_the_login(chromium, site):
    context = chromium.new_context(base_url=site.url, java_script_enabled=False)
    page, other = context.new_page(), context.new_page()
    log_in(page, site)
    page.goto("/workloads/new/")
    page.get_by_label("Name", exact=True).fill("My own")
    page.get_by_text("Advanced: constraints").click()
    page.get_by_label("Text", exact=True).fill("first line\nsecond line")
    page.get_by_role("button", name="Add an objective").click()
    expect(page.get_by_label("Text", exact=True)).to_be_visible()
    context.clear_cookies(name="sessionid")
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("heading", name="You are logged out")).to_be_visible()
    log_in(other, site)
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("My own")
    expect(page.get_by_label("Text", exact=True)).to_have_value("first line\nsecond line")
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("alert")).to_contain_text("The workload was not started.")
    expect(page.get_by_label("Name", exact=True)).to_have_value("My own")
    context.close()
