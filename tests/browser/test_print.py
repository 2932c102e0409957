"""A report on paper: nothing is cut at the margin, nothing of the screen is left, short tables are printed whole."""

from pathlib import Path

import pytest
from markupsafe import Markup
from playwright.sync_api import Browser

from tests import sample_results
from workers.documents.prices import default_price_book
from workers.report.page import Cover, render

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PAPER = {"A4": 182, "Letter": 188}
"""Width between the margins in mm."""
CUT = """() => [...document.querySelectorAll('table, figure, p, pre, dl')].filter((e) => e.offsetParent !== null)
  .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((e) => e.outerHTML.slice(0, 200))"""


@pytest.mark.parametrize("paper", PAPER)
def test_nothing_is_cut_on_paper(chromium: Browser, tmp_path: Path, paper: str) -> None:
    long = "a_word_that_finds_no_space_to_break_at_" * 8
    note = Markup(f"<p>{long}</p>")
    cover = Cover(f"A title {long}", "Voice", "Published", note, "2026-01-01", None, None, default_price_book())
    file = tmp_path / "report.html"
    file.write_text(render(sample_results.stage_input(), cover), "utf-8")
    page = chromium.new_page(viewport={"width": round(PAPER[paper] / 25.4 * 96), "height": 900})
    page.goto(file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "a long word is broken"
    page.emulate_media(media="print")
    assert page.evaluate(CUT) == []
    assert page.get_by_role("link", name="Objectives", exact=True).is_visible()
    reasons = page.locator("details.few th", has_text="reason").first
    assert reasons.is_visible(), "why each plan was taken or not is printed"
    assert not page.locator("summary").first.is_visible()
    pdf = page.pdf(format=paper)
    assert 0 < pdf.count(b"/Type /Page\n") <= 12
    page.close()
