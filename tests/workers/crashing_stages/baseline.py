"""A stage that notes what it tries: one thing hangs, and whatever the workload names ends the process."""

import os
import time

from tests.sample_results import results
from workers.documents.stages import BaselineResult, StageInput
from workers.harness.cli import main
from workers.harness.context import Context, StageError
from workers.measuring.journal import Journal


def run(document: StageInput, context: Context) -> BaselineResult:
    """A result whose runner is what was tried, or left out and why."""
    if document.left_out and "once" in document.workload.name:
        raise StageError("It cannot be done again.")
    journal = Journal(document, context)
    tried = [journal.once(each, str, lambda each=each: _try(journal, each)) for each in document.workload.name.split()]
    sample = results().baseline
    assert sample is not None
    return sample.model_copy(update={"runner": "; ".join(tried)})


def _try(journal: Journal, what: str) -> str:
    if said := journal.why_left_out(what):
        return said
    journal.note(what, f"the plan {what}", 1.0 if what == "hangs" else 60.0)
    if what == "hangs":
        time.sleep(600)
    if what.startswith("aborts"):
        os.abort()
    if what == "refuses":
        raise StageError("It cannot be done.")
    return f"{what} by {os.getpid()}"


if __name__ == "__main__":
    main(run)
