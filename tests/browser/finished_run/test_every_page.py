"""A run's pages on a phone, by keyboard, and without scripts."""

import re

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_wide_table_says_so_on_a_phone_and_keeps_its_first_column(open_page, finished_run):
    page = open_page(width=390)
    page.goto(f"{finished_run}result/#objectives")
    table = page.locator('div[aria-labelledby="objectives"]')
    expect(table).to_have_class("table-wrap wide")
    assert "Scroll sideways" in table.evaluate("(wrap) => getComputedStyle(wrap, '::before').content")
    name, value = table.locator("tbody th").first, table.locator("tbody td").last
    before = name.bounding_box()["x"]
    value.scroll_into_view_if_needed()
    assert table.evaluate("(wrap) => wrap.scrollLeft") > 50
    assert name.bounding_box()["x"] == pytest.approx(before, abs=1.5)
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(table).to_have_class("table-wrap")


def _focus(page: Page) -> str:
    return page.evaluate("document.activeElement.innerText || document.activeElement.id").strip()


def _tab_to(page: Page, words: str, most: int = 60) -> None:
    for _ in range(most):
        page.keyboard.press("Tab")
        if re.search(words, _focus(page)):
            return
    raise AssertionError(f"{words!r} was not reached with the keyboard; the focus is on {_focus(page)!r}")


def test_the_keyboard_is_enough(open_page, finished_run):
    page = open_page()
    page.goto(finished_run)
    page.keyboard.press("Tab")
    assert _focus(page) == "Skip to content"
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()
    _tab_to(page, "Read the result")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert float(outline.removesuffix("px")) >= 2
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/result/$"))
    page.wait_for_load_state()
    _tab_to(page, "Is it right")
    page.keyboard.press("Enter")
    _tab_to(page, "The numbers of")
    page.keyboard.press("Enter")
    expect(page.locator("details details[open] table").first).to_be_visible()
    _tab_to(page, "What was tried")
    page.keyboard.press("Enter")
    _tab_to(page, "^candidates-filter$")
    page.keyboard.type("no such kernel")
    expect(page.locator("#candidates tbody tr:visible")).to_have_count(0)


def test_without_scripts_charts_leave_no_room_empty_lanes_are_a_table_and_the_api_can_be_read(open_page, finished_run):
    page = open_page(java_script_enabled=False)
    page.goto(f"{finished_run}result/")
    for question in page.locator("details.question > summary").all():
        question.click()
    figures = page.locator("figure.chart:visible")
    assert figures.count() >= 3
    for figure in figures.all():
        around, drawing = figure.bounding_box(), figure.locator(".chart-paper svg").first.bounding_box()
        assert drawing["height"] > 100
        assert drawing["y"] - around["y"] < 100, "room above a chart"
    section = page.locator(".timelines")
    assert "drawing needs JavaScript" in section.inner_text()
    section.get_by_text("The lanes in numbers").first.click()
    expect(section.get_by_role("rowheader", name="Modules").first).to_be_visible()
    expect(section.get_by_role("link", name="Download the trace").first).to_be_visible()
    page.goto("/api/v1/docs")
    page.get_by_role("link", name="Start a run").click()
    expect(page.get_by_role("heading", name="Start a run")).to_be_in_viewport()
    expect(page.get_by_text("answer = start_run.sync_detailed")).to_be_visible()
