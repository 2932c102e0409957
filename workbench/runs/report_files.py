"""A report's files: the page itself, the page as PDF, and its tables as CSV and JSON."""

import base64
import hashlib
import time
from typing import Any

from django.core.cache import caches
from django.http import HttpResponse

from workbench.api.in_flight import try_lock
from workbench.web import pdf
from workbench.web.error_pages import refused
from workers.report import tables

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox allow-downloads"
MEDIA_TYPES = {
    "report.html": "text/html; charset=utf-8",
    "report.pdf": "application/pdf",
    "report-letter.pdf": "application/pdf",
    "tables.zip": "application/zip",
    "tables.json": "application/json",
}
PAPER = {"report.pdf": "A4", "report-letter.pdf": "letter"}
LABELS = {
    "report.pdf": "PDF (A4)",
    "report-letter.pdf": "PDF (Letter)",
    "report.html?download": "HTML",
    "tables.zip": "Tables as CSV",
    "tables.json": "as JSON",
}
PATIENCE_SECONDS = 20.0
"""How long a reader waits while PDF files of other organisations are made."""
BUSY = "The server is making another PDF. Try again in some seconds."
AGAIN_SECONDS = 5


def respond(page: str, file: str, name: str, download: bool, organisation: Any) -> HttpResponse:
    """The file of MEDIA_TYPES that is made of an organisation's report in HTML, saved as `name` with its ending.

    The page itself is shown unless it is to be downloaded, under a policy that forbids scripts, with links to the
    other files. 503 with a sentence where a PDF cannot be made now.
    """
    if paper := PAPER.get(file):
        sized = page.replace("</head>", f"<style>@page {{ size: {paper}; }}</style></head>", 1)
        content, reason = _pdf(sized, organisation)
        if content is None:
            return refused(503, "No PDF", reason, AGAIN_SECONDS)
    elif file == "report.html":
        content = (page if download else page.replace("<main>", f"<main>{_links()}", 1)).encode()
    else:
        content = tables.as_zip(page) if file == "tables.zip" else tables.as_json(page)
    shown = file == "report.html" and not download
    response = HttpResponse(content, content_type=MEDIA_TYPES[file])
    response["Content-Security-Policy"] = POLICY
    whole = f"{name}.{file.rpartition('.')[2]}" if file.startswith("report.") else f"{name}-{file}"
    response["Content-Disposition"] = f'{"inline" if shown else "attachment"}; filename="{whole}"'
    return response


def _links() -> str:
    files = [(file, label) for file, label in LABELS.items() if file not in PAPER or pdf.available()]
    links = " · ".join(f'<a href="{file}">{label}</a>' for file, label in files)
    return f'<nav class="downloads" aria-label="Download">Download: {links}</nav>'


def _pdf(page: str, organisation: Any) -> tuple[bytes | None, str]:
    """The PDF, kept for some minutes, or why there is none. One at a time, since each takes a core and much memory.

    One reader of an organisation waits for it, so that a few of them, without a login too, do not hold all threads.
    """
    key, end = f"pdf-{hashlib.sha256(page.encode()).hexdigest()}", time.monotonic() + PATIENCE_SECONDS
    if cached := caches["results"].get(key):
        return base64.b64decode(cached), ""
    with try_lock(f"pdf {organisation}") as own_turn:
        while own_turn:
            with try_lock("pdf") as free:
                if free:
                    return _make_pdf(page, key)
            if time.monotonic() > end:
                break
            time.sleep(0.25)
    return None, BUSY


def _make_pdf(page: str, key: str) -> tuple[bytes | None, str]:
    try:
        content = pdf.pdf(page)
    except pdf.NoPdf as error:
        return None, str(error)
    caches["results"].set(key, base64.b64encode(content).decode())
    return content, ""
