"""A stage that notes what it tries: some of what the workload names hangs or ends the process."""

import os
import time

from tests.sample_results import results
from workers.documents.stages import BaselineResult, StageInput
from workers.harness.context import Context, StageError
from workers.measuring import overruns
from workers.measuring.journal import Journal


def run(document: StageInput, context: Context) -> BaselineResult:
    """A result whose runner is what was tried, or left out and why."""
    overruns.MIN_SECONDS = 2.0
    if document.left_out and "once" in document.workload.name:
        raise StageError("It cannot be done again.")
    journal = Journal(document, context)
    tried = [journal.once(part, str, lambda part=part: _try(journal, part)) for part in document.workload.name.split()]
    sample = results().baseline
    assert sample is not None
    return sample.model_copy(update={"runner": "; ".join(tried)})


def _try(journal: Journal, what: str) -> str:
    if text := journal.why_left_out(what):
        return text
    if what.startswith("waits") and not journal.most_seconds:
        return "no time"
    journal.note(what, f"the plan {what}", {"hangs": 1.0, "waits": journal.most_seconds}.get(what.rstrip("123"), 60.0))
    if what.startswith(("hangs", "waits")):
        time.sleep(600)
    if what.startswith("aborts"):
        os.abort()
    if what == "refuses":
        raise StageError("It cannot be done.")
    return f"{what} by {os.getpid()}"
