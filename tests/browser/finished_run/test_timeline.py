"""The timeline of a traced request, of a real run: by pointer, by keyboard, searched, and without JavaScript."""

import pytest
from playwright.sync_api import Locator, expect

from tests.waiting import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def drawn(canvas: Locator) -> bytes:
    """The picture, once two in a row are the same."""
    seen = canvas.screenshot()
    return seen if canvas.screenshot() == seen else b""


def test_the_timeline_is_read_by_keyboard_and_pointer_and_searched(open_page, finished_run):
    page = open_page()
    page.goto(f"{finished_run}result/#one-request")
    area = page.locator(".timeline").first
    canvas, detail, said = area.locator("canvas"), area.locator(".timeline-detail"), area.get_by_role("status").last
    expect(detail).to_contain_text("in all")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    expect(said).to_contain_text("% of the timeline")
    first = said.inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(said).not_to_have_text(first)
    before = wait_for(lambda: drawn(canvas), 120, "the timeline's drawing")
    page.keyboard.press("Escape")
    expect(said).to_have_text("")
    wait_for(lambda: canvas.screenshot() != before, 120, "the whole timeline, for Enter had zoomed in")
    area.get_by_role("searchbox").fill("q_proj")
    expect(area.get_by_role("status").first).to_contain_text("events")
    page.keyboard.press("Enter")
    expect(detail).to_contain_text("q_proj")
    page.get_by_role("button", name="Show the whole timeline").first.click()
    canvas.hover(position={"x": 300, "y": 50})
    expect(detail).not_to_contain_text("q_proj")


def test_without_javascript_the_lanes_are_a_table(chromium, site, session, finished_run):
    context = chromium.new_context(base_url=site.url, storage_state=session, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{finished_run}result/#one-request")
    section = page.locator(".timelines")
    assert "drawing needs JavaScript" in section.inner_text()
    section.get_by_text("The lanes in numbers").first.click()
    expect(section.get_by_role("rowheader", name="Modules").first).to_be_visible()
    expect(section.get_by_role("link", name="Download the trace").first).to_be_visible()
    context.close()
