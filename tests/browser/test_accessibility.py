"""A page of each template, wide and on a phone, light and dark: WCAG 2.2 AA, as far as axe-core can check it, and no
complaint of the browser."""

import json
import re
import struct
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import address_of, complaints_of
from tests.browser.screenshots import OF_README, README_SIZE, ROOT

pytestmark = [pytest.mark.browser, pytest.mark.slow]
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
ALIKE_PARTS = """() => {
  for (const question of document.querySelectorAll("details.question")) question.open = true;
  for (const body of document.querySelectorAll("tbody")) [...body.rows].slice(2).forEach((row) => row.remove());
  [...document.querySelectorAll("main > section.card[id]")].slice(3).forEach((part) => part.remove());
  [...document.querySelectorAll(".document > *")].slice(20).forEach((part) => part.remove());
}"""
"""Opens what is folded, and leaves the beginnings of what is long: axe-core takes ten seconds for hundreds alike."""
RESULT_PARTS = "() => document.querySelectorAll('details.question').forEach((question) => question.remove())"
"""Leaves what only this page has: the template results/_result.html makes the rest, as a result's page has it."""
SCROLL = """async () => { for (let y = 0; y < document.body.scrollHeight; y += 800) {
  window.scrollTo(0, y); await new Promise(requestAnimationFrame); } window.scrollTo(0, 0); }"""
RUN = """async (only) => {
  const options = {runOnly: only, resultTypes: ["violations"], preload: false, iframes: false};
  const place = (node) => node.target.join(" ") + " " + (node.any[0]?.message ?? "");
  return (await axe.run(document, options)).violations.map((v) => v.id + ": " + v.nodes.map(place).join("; "));
}"""
BEYOND = """async (ms) => { const root = document.documentElement, ends = Date.now() + ms;
  while (root.scrollWidth > root.clientWidth && Date.now() < ends) await new Promise(requestAnimationFrame);
  return root.scrollWidth - root.clientWidth; }"""
"""Pixels beyond the screen; Plotly draws a chart anew some time after the screen became narrower."""
BAR = "document.querySelector('.topbar')?.offsetHeight ?? 0"
ALIKE = """
    bring-up bring-ups-of-a-member compare-load compare-nothing empty-bring-ups empty-inbox empty-models
    empty-reports empty-tokens fleet-one-at-a-time forbidden invitation-ended notifications-of-a-member
    portfolio-nothing-found prices-asked report-file report-missed report-of-run report-reviewed result-h200
    result-inside result-load-llama result-load-qwen result-met result-missed result-no-change result-too-close
    result-two-gpus result-undecided result-vllm run-cancelled run-endpoint-load run-h200 run-inside run-load-llama
    run-load-qwen run-lost run-missed run-no-change run-queued run-too-close run-two-gpus run-undecided run-vllm
    workload workload-h200 workload-new workload-two-gpus workload-vllm
"""
"""Of the same template as pages that are checked; a link shows the same file as four of the reports."""
ALL = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
COLOURS_AND_SIZES = {
    "type": "rule",
    "values": ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"],
}
"""The rules that a scheme or a width can make fail: neither hides an element."""
VIEWS = ((1280, "light", ALL), (390, "dark", COLOURS_AND_SIZES))


@pytest.fixture
def complaints():
    """What the console complains of."""
    return []


@pytest.fixture
def page_of(chromium, site, gallery, complaints):
    """`page_of("admin")`: a page of that person, "" for who has no login, and may then read reports by scripts."""
    pages: dict[str, Page] = {}

    def opened(person: str) -> Page:
        if person not in pages:
            context = chromium.new_context(base_url=site.url, bypass_csp=not person)
            if person:
                value = gallery["sessions"][person]
                context.add_cookies([{"name": "sessionid", "value": value, "url": site.url}])
            pages[person] = complaints_of(context.new_page(), complaints)
        return pages[person]

    yield opened
    for page in pages.values():
        page.context.close()


def violations(page: Page, redrawn_ms: int = 10_000) -> list[str]:
    """What axe-core finds on the open page, wide and light, and dark on a phone, where all of it fits the screen after
    this time at most.
    """
    page.evaluate(ALIKE_PARTS)
    page.evaluate(AXE)
    result = []
    for width, scheme, rules in VIEWS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        result += [f"{width} px, {scheme}: {item}" for item in page.evaluate(RUN, rules)]
    if beyond := page.evaluate(BEYOND, redrawn_ms):
        result.append(f"{beyond} px are wider than the screen")
    return result


def test_no_page_violates_wcag_complains_or_wraps_its_bar(page_of, gallery, complaints):
    result = {}
    for name, person, address in [item for item in gallery["pages"] if item[0] not in ALIKE.split()]:
        page = page_of(person)
        page.set_viewport_size({"width": VIEWS[0][0], "height": 900})
        complaints.clear()
        good = page.goto(address).ok
        if name in ("example", "report-draft", "report-published"):
            page.evaluate(RESULT_PARTS)
        page.evaluate(SCROLL)
        wrong = violations(page) + (complaints if good else [])
        if page.evaluate(BAR) > 100:
            wrong.append("the bar wraps on a phone")
        if wrong:
            result[name] = wrong
    assert not result, json.dumps(result, indent=1)


def test_axe_finds_what_is_planted(page_of):
    page = page_of("")
    page.goto("/login/")
    planted = '<p style="color: #555; width: 3000px">A dark sentence.</p><img src="a.png">'
    page.evaluate("(html) => document.body.insertAdjacentHTML('beforeend', html)", planted)
    sentences = " ".join(violations(page, redrawn_ms=500))
    assert "image-alt" in sentences
    assert "dark: color-contrast" in sentences
    assert "light: color-contrast" not in sentences
    assert "wider than the screen" in sentences


def test_a_link_opens_what_it_leads_to_a_term_explains_itself_and_a_head_sorts_its_table(page_of, gallery):
    page = page_of("admin")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(address_of(gallery, "result-h200"))
    heading = page.locator("#roofline")
    expect(heading).not_to_be_visible()
    page.evaluate("location.hash = '#roofline'")
    expect(heading).to_be_in_viewport()
    expect(page.get_by_role("navigation", name="Contents")).to_be_in_viewport()
    page.get_by_role("link", name="Verdict", exact=True).first.click()
    meaning = page.get_by_role("tooltip")
    speedup = page.locator(".stat a.term", has_text="Speedup")
    speedup.hover()
    expect(meaning).to_contain_text("the ratio of the two medians")
    page.keyboard.press("Escape")
    expect(meaning).not_to_be_visible()
    speedup.focus()
    expect(meaning).to_contain_text("the ratio of the two medians")
    expect(speedup).to_have_accessible_description(re.compile("the ratio of the two medians"))

    page.evaluate("location.hash = '#decisions'")
    head = page.locator("#candidates thead th", has_text="ms").first
    times = "() => [...document.querySelectorAll('#candidates tbody tr')].map((row) => row.cells[2].textContent.trim())"
    for order, way in (("ascending", 1), ("descending", -1)):
        head.get_by_role("button", name="Sort by ms").click()
        expect(head).to_have_attribute("aria-sort", order)
        shown = page.evaluate(times)
        known = [float(item.replace(",", "")) for item in shown if item != "–"]
        assert known == sorted(known, reverse=way < 0)
        assert len(known) > 20
        assert "–" not in shown[: len(known)], "what has no time stays last"


def test_the_palette_and_shortcuts_work_by_keyboard_and_can_be_turned_off(page_of):
    page = page_of("admin")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto("/workloads/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Shortcuts")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Search and commands")
    assert violations(page) == []
    page.keyboard.type("two-gpus-nothing")
    expect(palette.get_by_text("Nothing found.")).to_be_visible()
    page.keyboard.press("Control+a")
    page.keyboard.type("activ")
    expect(palette.get_by_role("option").first).to_contain_text("Activity")
    page.keyboard.press("Enter")
    page.wait_for_url("**/activity/")
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.wait_for_url("**/models/")
    page.keyboard.press("?")
    page.get_by_label("Shortcuts of single keys").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.evaluate("localStorage.clear()")


@pytest.mark.parametrize("name", OF_README.values())
def test_an_image_of_the_readme_has_the_size_of_the_command(name):
    header = (ROOT / "docs" / name).read_bytes()[:24]
    assert struct.unpack(">II", header[16:24]) == (README_SIZE["width"], README_SIZE["height"])
    assert f"](docs/{name})" in (ROOT / "README.md").read_text("utf-8")
