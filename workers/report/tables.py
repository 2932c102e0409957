"""Every table of a report as data, read from its HTML, so that a table and its file cannot differ."""

import csv
import io
import json
import re
import zipfile
from dataclasses import dataclass, field
from html.parser import HTMLParser

FORMULA = tuple("=+-@")
"""What a spreadsheet takes for the beginning of a formula."""
NUMBER = re.compile(r"[+-]\d[\d.,]*( ?[%A-Za-z/]+)?")


@dataclass
class ReportTable:
    """A table under the heading above it; cells are as they are printed."""

    title: str
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tables: list[ReportTable] = []
        self._heading, self._text = "", ""
        self._in_head = self._in_mark = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append(ReportTable(self._heading))
        elif tag == "thead":
            self._in_head = True
        elif tag == "tr" and not self._in_head:
            self.tables[-1].rows.append([])
        elif tag in ("h2", "h3", "th", "td"):
            self._text = ""
        elif tag == "br":
            self._text += "; "
        self._in_mark = tag == "span" and ("class", "basis") in attrs

    def handle_endtag(self, tag: str) -> None:
        text = " ".join(self._text.split())
        if tag in ("h2", "h3"):
            self._heading = text
        elif tag in ("th", "td"):
            (self.tables[-1].columns if self._in_head else self.tables[-1].rows[-1]).append(text)
        elif tag == "thead":
            self._in_head = False
        self._in_mark = False

    def handle_data(self, data: str) -> None:
        if not self._in_mark:
            self._text += data


def read(page: str) -> list[ReportTable]:
    """The tables of the HTML of a report, in its order; one that has its heading with another has a number."""
    reader = _Reader()
    reader.feed(page)
    seen: dict[str, int] = {}
    for table in reader.tables:
        seen[table.title] = seen.get(table.title, 0) + 1
        if seen[table.title] > 1:
            table.title += f" {seen[table.title]}"
    return reader.tables


def as_json(page: str) -> bytes:
    """A list of `{"title", "columns", "rows"}`."""
    return json.dumps([vars(table) for table in read(page)], indent=1, ensure_ascii=False).encode() + b"\n"


def as_zip(page: str) -> bytes:
    """A ZIP file with one CSV file (RFC 4180) for each table. An apostrophe stands before text that a spreadsheet would
    compute, such as a name that begins with =.
    """
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, table in enumerate(read(page), 1):
            text = io.StringIO()
            csv.writer(text).writerows([[_as_text(cell) for cell in row] for row in (table.columns, *table.rows)])
            name = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")
            archive.writestr(f"{number:02}-{name}.csv", text.getvalue())
    return kept.getvalue()


def _as_text(cell: str) -> str:
    return f"'{cell}" if cell[:1] in FORMULA and not NUMBER.fullmatch(cell) else cell
