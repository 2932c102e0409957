"""HTML of this server as PDF, by Chromium in a process of its own: without scripts, network, or a file of ours.

Whatever the page says, a content security policy stands before it, and Landlock leaves Chromium the system's files.
Chromium is the operator's (`CHROMIUM` in settings.py): its command line needs no library here.
"""

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from django.conf import settings

log = logging.getLogger(__name__)

SECONDS = 60
"""How long a PDF may take; a long report takes two to five seconds on a machine of two cores."""
ARGUMENTS = (
    *("--headless", "--disable-gpu", "--no-first-run", "--disable-extensions", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9", "--no-pdf-header-footer"),
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
HEAD = f'<!doctype html><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
START = "import sys; sys.path.insert(0, {root!r}); from workers.confinement.program import main; main()"
SHORT = os.environ.get("TMPDIR", "/tmp")
"""Where Chromium works: paths of its sockets have 108 bytes at most, and the folder of uploads may lie too deep."""
MISSING = (
    "This installation makes no PDF, since it has no Chromium. Open the report in a browser and print it into a file."
)


class NoPdf(Exception):
    """There is no PDF; the message is a sentence."""


def available() -> bool:
    """Whether this installation has Chromium."""
    return bool(settings.CHROMIUM and shutil.which(settings.CHROMIUM[0]))


def pdf(html: str) -> bytes:
    """The page as a PDF. Raises NoPdf where Chromium is absent, fails, or takes more than SECONDS."""
    if not available():
        raise NoPdf(MISSING)
    with tempfile.TemporaryDirectory(prefix="pdf-", dir=SHORT, ignore_cleanup_errors=True) as folder:
        page, document = Path(folder, "page.html"), Path(folder, "page.pdf")
        page.write_text(HEAD + html, "utf-8")
        where = [f"--user-data-dir={folder}/profile", f"--print-to-pdf={document}", page.as_uri()]
        environment = {"HOME": folder, "TMPDIR": folder, "PATH": os.environ.get("PATH", os.defpath)}
        errors = Path(folder, "stderr")
        with errors.open("wb") as stderr:
            start = START.format(root=str(settings.BASE_DIR))
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", start, folder, *settings.CHROMIUM, *ARGUMENTS, *where],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=environment,
                start_new_session=True,
            )
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise NoPdf("The PDF took too long on this busy machine. Try again later.") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if not document.exists():
            log.error("Chromium made no PDF: %s", errors.read_text("utf-8", "replace")[-1000:])
            raise NoPdf("Chromium made no PDF. The server's log says why.")
        return document.read_bytes()
