"""Every line of a log is one JSON object with the ids of what it is about, also from other threads."""

import json
import subprocess
import sys

from tests.workers.pipeline.stack import ROOT

PROGRAM = """
import logging, logging.config, threading
from workers.shared import logs
from workers.host.threads import inheriting
logging.config.dictConfig(logs.configuration("INFO"))
log = logging.getLogger("workers.sample")
def elsewhere():
    log.warning("of %s", "another thread")
with logs.bound(request_id="r-1", run_id="u-1", stage="verify", attempt=2):
    log.info("inside")
    thread = threading.Thread(target=inheriting(elsewhere))
    thread.start()
    thread.join()
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception("failed")
log.debug("not said")
logging.getLogger("waitress.queue").warning("Task queue depth is %d", 1)  # nor this
log.info("outside")
log.error("%s: %s", "Service Unavailable", "/shared/QrEDQDBPPgS5/report.pdf")
"""


def test_lines_are_json_with_ids() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    inside, other, failed, outside, link = map(json.loads, done.stderr.splitlines())
    ids = {"request_id": "r-1", "run_id": "u-1", "stage": "verify", "attempt": 2}
    assert inside.items() >= {**ids, "event": "inside", "level": "info", "logger": "workers.sample"}.items()
    assert other.items() >= {**ids, "event": "of another thread", "level": "warning"}.items()
    assert failed.items() >= ids.items()
    assert "ZeroDivisionError" in failed["exception"]
    assert not ids.keys() & outside.keys()
    assert link["event"] == "Service Unavailable: /shared/…/report.pdf", "the secret of a link is in no log"
    assert inside["timestamp"].endswith("Z")
