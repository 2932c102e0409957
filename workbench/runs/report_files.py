"""A report's files: the page itself, the page as PDF, and its tables as CSV and JSON."""

import base64
import hashlib
import time

from django.core.cache import caches
from django.http import HttpResponse
from django.shortcuts import render

from workbench.api.in_flight import held
from workbench.web import pdf
from workers.report import tables

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox allow-downloads"
MEDIA_TYPES = {
    "report.html": "text/html; charset=utf-8",
    "report.pdf": "application/pdf",
    "tables.zip": "application/zip",
    "tables.json": "application/json",
}
LABELS = {"report.pdf": "PDF", "report.html?download": "HTML", "tables.zip": "Tables as CSV", "tables.json": "as JSON"}
PATIENCE_SECONDS = 20.0
"""How long a reader waits while other PDF files are made."""
BUSY = "The server is making another PDF. Try again in some seconds."


def respond(page: str, file: str, name: str, download: bool) -> HttpResponse:
    """The file of MEDIA_TYPES that is made of a report's HTML, saved as `name` with its ending.

    The page itself is shown unless it is to be downloaded, under a policy that forbids scripts, with links to the
    other files. 503 with a sentence where a PDF cannot be made now.
    """
    if file == "report.pdf":
        content, reason = _pdf(page)
        if content is None:
            context = {"status": 503, "title": "No PDF", "reason": reason}
            return render(None, "refused.html", context, status=503)
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
    files = [(file, label) for file, label in LABELS.items() if file != "report.pdf" or pdf.available()]
    links = " · ".join(f'<a href="{file}">{label}</a>' for file, label in files)
    return f'<nav class="downloads" aria-label="Download">Download: {links}</nav>'


def _pdf(page: str) -> tuple[bytes | None, str]:
    """The PDF, kept for some minutes, or why there is none. One at a time, since each takes a core and much memory."""
    key, end = f"pdf-{hashlib.sha256(page.encode()).hexdigest()}", time.monotonic() + PATIENCE_SECONDS
    while True:
        if kept := caches["results"].get(key):
            return base64.b64decode(kept), ""
        with held("pdf") as free:
            if free:
                return _made(page, key)
        if time.monotonic() > end:
            return None, BUSY
        time.sleep(0.25)


def _made(page: str, key: str) -> tuple[bytes | None, str]:
    try:
        content = pdf.pdf(page)
    except pdf.NoPdf as error:
        return None, str(error)
    caches["results"].set(key, base64.b64encode(content).decode())
    return content, ""
