"""From an invitation to paper: the account team reviews, publishes and shares; a customer reads and prints."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import complaints_of

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PASSWORD = "correct horse battery"


@pytest.fixture
def stranger(chromium, site):
    """`stranger()`: a page without a login, in a browser of its own."""
    contexts = []

    def opened():
        contexts.append(chromium.new_context(base_url=site.url))
        return contexts[-1].new_page()

    yield opened
    for context in contexts:
        context.close()


def _invite(admin: Page, email: str, role: str) -> str:
    """The link of an invitation that an admin makes."""
    admin.goto("/members/")
    admin.get_by_label("Email").fill(email)
    admin.get_by_label("Role", exact=True).last.select_option(role)
    admin.get_by_role("button", name="Make an invitation").click()
    return admin.locator("code", has_text="/invitations/").inner_text()


def _join(page: Page, link: str) -> Page:
    """Follow the invitation and log in."""
    page.goto(link)
    page.get_by_label("Name").fill("Somebody New")
    for field in page.locator("input[type=password]").all():
        field.fill(PASSWORD)
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    return page


def test_a_report_goes_from_the_account_team_to_the_customers_paper(open_page, stranger, finished_run):
    page = _join(stranger(), _invite(open_page(), "account@walk.test", "account"))
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(f"{finished_run}result/")
    page.get_by_role("button", name="Freeze for review").click()
    page.get_by_label("Note to the reader").fill("Safe to promise *for this prompt length*.")
    page.get_by_role("button", name="Mark as reviewed").click()
    page.get_by_role("button", name="Publish").click()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Make a link").click()
    link = page.locator("code", has_text="/shared/").inner_text()

    complaints: list[str] = []
    customer = complaints_of(stranger(), complaints)
    customer.goto(link)
    customer.get_by_label("Password").fill(PASSWORD)
    customer.get_by_role("button", name="Open the report").click()
    expect(customer.get_by_text("for this prompt length")).to_be_visible()
    expect(customer.get_by_text("Somebody New").first).to_be_visible()
    assert complaints == []
    with customer.expect_download() as waiting:
        customer.get_by_role("link", name="PDF (A4)").click()
    paper = waiting.value.path().read_bytes()
    assert paper.startswith(b"%PDF-")
    assert 1 < paper.count(b"/Type /Page\n") <= 15
    with customer.expect_download() as waiting:
        customer.get_by_role("link", name="as JSON").click()
    assert "Objectives" in waiting.value.path().read_text("utf-8")

    page.goto(page.url.removesuffix("share/"))
    expect(page.locator("section", has_text="Links for readers").locator("tbody td.number")).to_contain_text("1")
    page.get_by_role("button", name="Revoke the link").click()
    expect(page.get_by_text("revoked 20")).to_be_visible()
    assert customer.goto(link).status == 404
