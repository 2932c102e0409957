"""Pages as PDF files by Chromium, read by PDFium: what a reader with a printer gets."""

import ctypes
import re
from types import SimpleNamespace

import pypdfium2
import pypdfium2.raw
import pytest
from markupsafe import Markup
from playwright.sync_api import Page

from tests import sample_results
from tests.browser.conftest import address_of
from workbench.home.example import example
from workers.documents.prices import default_price_book
from workers.report.page import Cover, render

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MARGIN = 14 / 25.4 * 72
"""Left and right, in points."""
FOOT = 17 / 25.4 * 72
ROUGH = 2
"""Points by which margins are rounded to pixels."""
PAPER = {"A4": 182, "Letter": 188}
"""Width between the margins in mm."""
CUT = """() => [...document.querySelectorAll('table, figure, p, pre, dl')].filter((e) => e.offsetParent !== null)
.filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
.map((e) => e.outerHTML.slice(0, 200))"""
LONGER = """() => { const row = document.querySelector('#objectives ~ .table-wrap tbody tr, h2 + .wrap tbody tr');
  for (let i = 0; i < 80; i++) row.after(row.cloneNode(true)); }"""


@pytest.fixture
def printed(tmp_path):
    """`printed(page, "A4")`: the page as a PDF."""

    def made(page: Page, paper: str) -> pypdfium2.PdfDocument:
        file = tmp_path / f"{paper}.pdf"
        page.pdf(path=file, format=paper)
        return pypdfium2.PdfDocument(file)

    return made


def _texts(document: pypdfium2.PdfDocument) -> list[str]:
    return [page.get_textpage().get_text_bounded() for page in document]


def _beyond(page: pypdfium2.PdfPage) -> list[str]:
    """Text and drawings of a page that reach into its margins at the sides, and pictures of pixels."""
    text = page.get_textpage()
    spans = [(text.get_rect(index), "text") for index in range(text.count_rects())]
    for item in page.get_objects(max_depth=1):
        assert item.type != pypdfium2.raw.FPDF_PAGEOBJ_IMAGE, "a picture of pixels"
        if not _is_paper(item):
            spans.append((item.get_bounds(), "a drawing"))
    low, high = MARGIN - ROUGH, page.get_width() - MARGIN + ROUGH
    return [
        f"{what} from {left:.0f} to {right:.0f}" for (left, _, right, _), what in spans if left < low or right > high
    ]


def _lowest(page: pypdfium2.PdfPage) -> float:
    """How far down a page is used, in points from its lower edge; its number does not count."""
    seen = [item for item in page.get_objects(max_depth=1) if not _is_paper(item)]
    return min(bottom for _, bottom, _, _ in (item.get_bounds() for item in seen) if bottom > FOOT)


def _is_paper(each: pypdfium2.PdfObject) -> bool:
    """A white area, such as the body's."""
    if each.type != pypdfium2.raw.FPDF_PAGEOBJ_PATH:
        return False
    colours = [ctypes.c_uint() for _ in range(4)]
    pypdfium2.raw.FPDFPageObj_GetFillColor(each, *colours)
    return [colour.value for colour in colours[:3]] == [255] * 3


def _measured() -> SimpleNamespace:
    """The committed run on an H200, as a report reads it."""
    known = example()
    assert known
    taken = {stage.stage: stage.duration_s for stage in known.stages}
    return SimpleNamespace(workload=known.workload, model=known.model, results=known.results, taken=taken)


@pytest.mark.parametrize(("kind", "paper"), [("result", "Letter"), ("report", "A4")])
def test_a_pdf_is_whole(open_page, printed, tmp_path, kind, paper):
    """The run on an H200 has more rows than made-up ones; the browser is dark, paper is not."""
    page = open_page(color_scheme="dark")
    if kind == "result":
        page.goto("/example/")
    else:
        note = Markup("<p>Note</p>")
        cover = Cover("A title", "Voice", "Published", note, "2026-01-01", None, None, default_price_book())
        file = tmp_path / "report.html"
        file.write_text(render(_measured(), cover), "utf-8")
        page.goto(file.as_uri())
    document = printed(page, paper)
    texts = _texts(document)
    assert 5 <= len(texts) <= 14
    for number, (sheet, text) in enumerate(zip(document, texts, strict=True), 1):
        assert _beyond(sheet) == []
        assert re.search(rf"\b{number} / {len(texts)}\b", text), "each page has its number"
        alone = number == len(texts) or (kind, number) == ("report", 1)
        assert alone or _lowest(sheet) < sheet.get_height() / 2, "no half page is blank"
    drawn = sum(item.type == pypdfium2.raw.FPDF_PAGEOBJ_PATH for sheet in document for item in sheet.get_objects())
    assert drawn > 300, "the charts' lines and areas are there"
    whole = re.sub(r"\s+", " ", " ".join(texts))
    assert ("Recommendation" if kind == "report" else "Objectives") in texts[0], "what decides is on the first page"
    assert "slower than" in whole, "why each plan was not taken"
    assert "The numbers of" not in whole, "nothing is printed that only opens on a screen"
    page.evaluate(LONGER)
    longer = _texts(printed(page, paper))
    assert sum("Samples over the limit" in re.sub(r"\s+", " ", text) for text in longer) >= 2, "heads come again"


@pytest.mark.parametrize("kind", ["result/", "report.html"])
def test_a_pdf_of_a_run_under_load_is_whole(open_page, printed, gallery, kind):
    """Its table of loads has twelve columns, the last of which says whether the objectives hold."""
    page = open_page(width=round(PAPER["A4"] / 25.4 * 96), cookie=gallery["sessions"]["admin"])
    page.goto(address_of(gallery, "result-load-llama").replace("result/", kind))
    page.emulate_media(media="print")
    assert page.evaluate(CUT) == []
    document = printed(page, "A4")
    assert [line for sheet in document for line in _beyond(sheet)] == []
    assert not re.search(r"\bbefor\b", " ".join(_texts(document))), "short words are not broken"


def test_a_pdf_of_a_comparison_names_its_runs(open_page, printed, gallery):
    page = open_page(cookie=gallery["sessions"]["admin"])
    page.goto(address_of(gallery, "compare-load"))
    document = printed(page, "A4")
    first, whole = _texts(document)[0], re.sub(r"\s+", " ", " ".join(_texts(document)))
    for words in ("A Voice agent, llama-3.2-1b-load", "B Voice agent, qwen2.5-1.5b-load"):
        assert words in re.sub(r"\s+", " ", first)
    assert "Add a finished run" not in whole
    assert "Confinement" in whole, "short words are not broken"


def test_what_was_just_done_and_what_can_be_done_is_not_printed(open_page, printed):
    page = open_page()
    page.goto("/members/")
    page.get_by_role("button", name="Save", exact=True).click()
    message = page.get_by_role("status").inner_text()
    assert message == "The rule for publishing reports is saved."
    text = " ".join(_texts(printed(page, "A4")))
    assert "Members" in text
    for words in (message, "Save", "Log out", "Invite"):
        assert words not in text


@pytest.mark.parametrize("paper", PAPER)
def test_nothing_is_cut_on_paper(chromium, tmp_path, paper):
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
