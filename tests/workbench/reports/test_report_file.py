"""What the customer downloads is the frozen report with everything that the account team added."""

import csv
import html
import io
import re
import tempfile
import zipfile

import pytest
from django.core.cache import caches

from workbench.api.in_flight import try_lock
from workbench.reports import notes, services
from workbench.runs import report_files
from workbench.web import pdf
from workers.report import tables as report_tables

NOTE = (
    "Safe to promise, **for this prompt length**.\n\n- risk: <script>alert(1)</script>\n- [plan](https://voice.test/p)"
)

CHROMIUM = """#!/bin/sh
for each; do
  [ ${#each} -lt 80 ] || exit 1
  case "$each" in --print-to-pdf=*) to=${each#*=};; file://*) from=${each#file://};; esac
done
policy=$(head -c 80 "$from" | grep -c Content-Security-Policy)
paper=$(grep -o '@page { size: [a-zA-Z0-9]*' "$from")
echo "%PDF $(env | grep -c SECRET) $policy $(cat "$SECRET_FILE" 2>/dev/null | wc -c) $paper" > "$to"
"""
"""Writes what it found instead of a PDF: secrets in its environment, a policy before all of the page, the length of a
secret in a file, and the paper. It takes no long path, as sockets do not.
"""


@pytest.fixture
def published(report, account):
    return services.publish(services.review(report, account, NOTE, "Acme"), account)


def test_the_download_has_customer_note_people_dates_and_prices(browser, api, engineer, published, done):
    done.stages.filter(stage="verify").update(result=None, state="pending")
    answer = browser(engineer).get(f"/reports/{published.id}/report.html?download")
    page = answer.content.decode()
    assert answer["Content-Disposition"] == 'attachment; filename="voice-agent-test-data-on-llama-32-1b.html"'
    assert "sandbox" in answer["Content-Security-Policy"]
    for part in (
        "<strong>for this prompt length</strong>",
        "<strong>For Acme</strong> · Published on 20",
        "by Account · reviewed on 20",
        "Reviewed by Account on 20",
        f"<h1>{published.title}</h1>",
        "TTF64 p50 is 81.0 ms against a limit of 100 ms",
        published.document.prices.source,
    ):
        assert part in html.unescape(page)
    assert api(engineer).get(f"/api/v1/reports/{published.id}/file").content.decode() == services.render_page(published)
    assert str(done.id) not in page
    assert not re.search(r"<script|<link(?! rel=\"icon\" href=\"data:,\">)|(src)=\"http|@import|url\(", page)


def test_what_a_run_wrote_by_itself_says_that_it_is_a_draft(browser, engineer, done, report, organisation):
    client = browser(engineer)
    page = client.get(f"/runs/{done.id}/report.html").content.decode()
    assert "Draft: nobody has reviewed these results." in page
    assert str(done.id) not in page
    assert "Report to share" not in client.get(f"/runs/{done.id}/result/").content.decode()
    organisation.name = "Renamed"
    organisation.save()
    assert all(words in services.render_page(report) for words in ("For Voice", "Draft")), (
        "a later name does not change it"
    )


@pytest.mark.parametrize(
    "hostile",
    [
        "<img src=x onerror=alert(1)>",
        "![seen](https://track.test/pixel.png)",
        "[go](javascript:alert(1))",
        "<a href='javascript:alert(1)'>go</a>",
        "[go](data:text/html;base64,PHNjcmlwdD4=)",
        "<style>p{display:none}</style>",
    ],
)
def test_a_hostile_note_is_only_text(hostile):
    page = notes.html(hostile)
    assert not re.search(r"<(img|script|style|svg|iframe)|href=\"(?!https?:)|\son\w+=\"", page)


def test_every_table_of_the_report_is_in_its_files(browser, engineer, published):
    client, address = browser(engineer), f"/reports/{published.id}"
    page = client.get(f"{address}/report.html").content.decode()
    answer = client.get(f"{address}/tables.json")
    assert answer["Content-Disposition"] == 'attachment; filename="voice-agent-test-data-on-llama-32-1b-tables.json"'
    tables = answer.json()
    assert len(tables) == page.count("<table") > 8
    assert len({table["title"] for table in tables}) == len(tables)
    first = tables[0]
    assert (first["title"], first["columns"][:3]) == ("Objectives", ["Objective", "Before", "After"])
    assert first["rows"][0][:3] == ["TTF64 p50", "285 ms", "81.8 ms"]
    assert all(len(row) == len(table["columns"]) for table in tables for row in table["rows"])
    archive = zipfile.ZipFile(io.BytesIO(client.get(f"{address}/tables.zip").content))
    assert len(archive.namelist()) == len(tables)
    rows = list(csv.reader(io.StringIO(archive.read("01-objectives.csv").decode(), newline="")))
    assert rows == [first["columns"], *first["rows"]]
    assert client.get(f"{address}/other.txt").status_code == 404


def test_no_cell_of_a_csv_file_is_a_formula():
    cells = ["=HYPERLINK(1)", "@SUM(1)", "+1+cmd|' /C calc'!A0", "-2+3", "-27 %", "+0.5 ms", "-1,024", "a=b"]
    page = f"<h2>T</h2><table><tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr></table>"
    archive = zipfile.ZipFile(io.BytesIO(report_tables.as_zip(page)))
    rows = list(csv.reader(io.StringIO(archive.read("01-t.csv").decode(), newline="")))
    assert rows[1] == [*(f"'{cell}" for cell in cells[:4]), *cells[4:]]


def test_a_pdf_is_made_or_a_sentence_says_why_not(browser, engineer, published, settings, tmp_path, monkeypatch):
    client, address = browser(engineer), f"/reports/{published.id}/report.pdf"
    program, secret = tmp_path / "bin" / "chromium", tmp_path / "secret_key"
    secret.write_text("secret")
    program.parent.mkdir()
    program.write_text(CHROMIUM.replace("$SECRET_FILE", str(secret)))
    program.chmod(0o755)
    settings.CHROMIUM = [str(program)]
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))  # as that of a web process may be
    answer = client.get(address)
    assert (answer["Content-Type"], answer.content) == ("application/pdf", b"%PDF 0 1 0 @page { size: A4\n")
    assert answer["Content-Disposition"].endswith('llama-32-1b.pdf"')
    assert b"size: letter" in client.get(f"/reports/{published.id}/report-letter.pdf").content
    settings.CHROMIUM = []
    assert client.get(address).content == answer.content, "it is kept"
    caches["results"].clear()
    assert client.get(address).status_code == 503
    assert "no Chromium" in client.get(address).content.decode()
    assert "report.pdf" not in client.get(f"/reports/{published.id}/report.html").content.decode()
    settings.CHROMIUM = ["/bin/true"]
    assert "Chromium made no PDF" in client.get(address).content.decode()
    settings.CHROMIUM = ["/bin/sh", "-c", "sleep 60"]
    monkeypatch.setattr(pdf, "SECONDS", 0.05)
    assert "took too long" in client.get(address).content.decode()
    monkeypatch.setattr(report_files, "PATIENCE_SECONDS", 0)
    with try_lock("pdf"):
        assert "Try again in some seconds" in client.get(address).content.decode()
    monkeypatch.setattr(report_files, "PATIENCE_SECONDS", 600)
    with try_lock(f"pdf {published.organisation_id}"):
        busy = client.get(address)
    assert (busy.status_code, busy["Retry-After"]) == (503, "5"), "another reader of the organisation waits already"
