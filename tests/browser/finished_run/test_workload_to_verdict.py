"""A real run: its page up to the verdict, its result, and the timeline of a traced request by pointer and keyboard."""

import pytest
from playwright.sync_api import Locator, expect

from tests.waiting import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_run_ends_with_its_verdict_its_charts_its_candidates_and_its_files(open_page, finished_run):
    page = open_page()
    page.goto(finished_run)
    expect(page.locator('[data-state="done"]')).to_have_count(8)
    page.get_by_role("link", name="Read the result").click()
    expect(page.get_by_role("heading", name="Met")).to_be_visible()
    assert page.locator("[data-verdict]").get_attribute("data-verdict") == "met"
    expect(page.locator("[data-verdict]")).to_contain_text("TTF8 p50")

    for question in page.locator("details.question > summary").all():
        question.click()
    areas = page.locator("section.card > figure > [data-figure]")
    assert areas.count() >= 6
    for area in areas.all():
        area.scroll_into_view_if_needed()
        expect(area.locator("svg.main-svg").first).to_be_visible()

    texts = page.locator("#candidates tbody tr").all_text_contents()
    total, chosen = len(texts), sum("chosen" in text.lower() for text in texts)
    for words, left in (("no such kernel", 0), ("chosen", chosen), ("", total)):
        page.get_by_label("Filter the candidates").fill(words)
        expect(page.locator("#candidates-count")).to_have_text(f"{left} of {total} rows")
        expect(page.locator("#candidates tbody tr:visible")).to_have_count(left)

    with page.expect_download() as waiting:
        page.get_by_role("link", name="plan.json").first.click()
    assert waiting.value.suggested_filename == "plan.json"
    page.goto(f"{finished_run}report.html")
    expect(page.get_by_role("heading", name="Browser test")).to_be_visible()
    assert page.locator("svg").count() >= 5


def drawn(canvas: Locator) -> bytes:
    """The picture, once two in a row are the same."""
    seen = canvas.screenshot()
    return seen if canvas.screenshot() == seen else b""


def test_the_timeline_is_read_by_keyboard_and_pointer_and_searched(open_page, finished_run):
    page = open_page()
    page.goto(f"{finished_run}result/#one-request")
    area = page.locator(".timeline").first
    canvas, detail, text = area.locator("canvas"), area.locator(".timeline-detail"), area.get_by_role("status").last
    expect(detail).to_contain_text("in all")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    expect(text).to_contain_text("% of the timeline")
    first = text.inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(text).not_to_have_text(first)
    before = wait_for(lambda: drawn(canvas), 120, "the timeline's drawing")
    page.keyboard.press("Escape")
    expect(text).to_have_text("")
    wait_for(lambda: canvas.screenshot() != before, 120, "the whole timeline, for Enter had zoomed in")
    area.get_by_role("searchbox").fill("q_proj")
    expect(area.get_by_role("status").first).to_contain_text("events")
    page.keyboard.press("Enter")
    expect(detail).to_contain_text("q_proj")
    page.get_by_role("button", name="Show the whole timeline").first.click()
    canvas.hover(position={"x": 300, "y": 50})
    expect(detail).not_to_contain_text("q_proj")
