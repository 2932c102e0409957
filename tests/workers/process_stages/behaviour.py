"""A stage that says which process imported it and which one it runs in, and does what the workload's name asks."""

import os
import time
from typing import Any

from tests.sample_results import results
from workers.documents.stages import StageInput
from workers.harness.context import Context

IMPORTED_IN = os.getpid()


def run(document: StageInput, context: Context) -> Any:
    known = sorted(context.shared)
    context.shared[document.stage] = True
    imported = "here" if os.getpid() == IMPORTED_IN else "before"
    context.report_progress(0.5, f"{os.getpid()} imported {imported} knows {known}")
    name, _, stage = document.workload.name.partition(" ")
    if stage == document.stage and name == "hang":
        time.sleep(600)
    if stage == document.stage and name == "exit":
        os._exit(0)
    return getattr(results(), document.stage)
