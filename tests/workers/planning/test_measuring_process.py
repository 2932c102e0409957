"""What is said of a process that measures, where its result is missing or was written in part."""

import os
import sys
from pathlib import Path

import pytest

from kernels.plan import Plan
from tests.workers.conftest import stage_input
from workers.planning.measuring_process import Measured, MeasuringProcess, Task


class Torn(Measured):
    """What this module writes: so many `letters` of it, before a `signal` ends it; both are options of the plan."""


@pytest.mark.parametrize("letters", [0, 7])
@pytest.mark.parametrize(("signal", "words"), [(0, "left no result that can be read"), (9, "ended with code -9")])
def test_a_result_that_cannot_be_read_is_no_result(context, signal, letters, words):
    document = stage_input("verify")
    options = {"letters": letters, "signal": signal}
    plan = Plan(model_digest=document.model.digest, gpu="cpu", runner="eager", dtype="fp32", options=options)
    process = MeasuringProcess("torn", Task(document=document, plan=plan), Torn, context)
    assert process.measure(300) == words


if __name__ == "__main__":
    request, result = map(Path, sys.argv[1:3])
    options = Task.model_validate_json(request.read_bytes()).plan.options
    if options["letters"]:
        result.write_text('{"environment": '[: options["letters"]])
    if options["signal"]:
        os.kill(os.getpid(), options["signal"])
