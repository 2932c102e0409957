"""HTML of this server as PDF, by Chromium in a process of its own: without scripts, network, or a word of ours.

The page must forbid what it does not need by a content security policy of its own. Chromium is the operator's
(`CHROMIUM` in settings.py): its command line needs no library here.
"""

import logging
import os
import shutil
import signal
import subprocess
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
        page.write_text(html, "utf-8")
        where = [f"--user-data-dir={folder}/profile", f"--print-to-pdf={document}", page.as_uri()]
        environment = {"HOME": folder, "TMPDIR": folder, "PATH": os.environ.get("PATH", os.defpath)}
        errors = Path(folder, "stderr")
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                [*settings.CHROMIUM, *ARGUMENTS, *where],
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
