"""The way of a user: submit a workload, read the verdict, freeze and publish it."""

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_the_run_page_ends_with_the_verdict(open_page, finished_run):
    page = open_page()
    page.goto(finished_run)
    expect(page.locator('[data-state="done"]')).to_have_count(8)
    page.get_by_role("link", name="Read the result").click()
    expect(page.get_by_role("heading", name="Met")).to_be_visible()
    assert page.locator("[data-verdict]").get_attribute("data-verdict") == "met"
    expect(page.locator("[data-verdict]")).to_contain_text("TTF8 p50")


def test_every_chart_of_the_result_is_drawn(open_page, finished_run):
    page = open_page()
    page.goto(f"{finished_run}result/")
    for question in page.locator("details.question > summary").all():
        question.click()
    areas = page.locator("section.card > figure > [data-figure]")
    assert areas.count() >= 6
    for index in range(areas.count()):
        areas.nth(index).scroll_into_view_if_needed()
        expect(areas.nth(index).locator("svg.main-svg").first).to_be_visible()


def test_candidates_are_filtered(open_page, finished_run):
    page = open_page()
    page.goto(f"{finished_run}result/#decisions")
    rows, said = page.locator("#candidates tbody tr"), page.locator("#candidates-count")
    texts = rows.all_text_contents()
    total, chosen = len(texts), sum("chosen" in text.lower() for text in texts)
    for words, left in (("no such kernel", 0), ("chosen", chosen), ("", total)):
        page.get_by_label("Filter the candidates").fill(words)
        expect(said).to_have_text(f"{left} of {total} rows")
        expect(page.locator("#candidates tbody tr:visible")).to_have_count(left)


def test_plan_and_report_are_downloads_that_open(open_page, finished_run):
    page = open_page()
    page.goto(f"{finished_run}result/")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="plan.json").first.click()
    assert waiting.value.suggested_filename == "plan.json"
    page.goto(f"{finished_run}report.html")
    expect(page.get_by_role("heading", name="Browser test")).to_be_visible()
    assert page.locator("svg").count() >= 5
