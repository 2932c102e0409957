"""Verify beside a slow runner, with a plan that loses the GPU or, in workloads that say so by name, hangs."""

from kernels.runners import by_name
from tests.workers.crashing_stages import plants
from tests.workers.crashing_stages.plants import Crashing, plant
from workers.documents.stages import StageInput, VerifyResult
from workers.harness.context import Context
from workers.measuring import alternation, journal, overruns
from workers.stages import verify


def run(document: StageInput, context: Context) -> VerifyResult:
    """Verify. Plans of a workload named *hangs* may do so for 2 s past the stage's time, of another for 8 s at once.
    It starts no further processes, which would have no planted runners.
    """
    context.startup_seconds = None
    plant(Crashing)
    by_name.RUNNERS["compiled"] = "tests.workers.stages.test_confirmed_plans.SlowRunner"
    alternation.MIN_SECONDS = 0.0
    if document.workload.name == "hangs in time":
        by_name.RUNNERS["megakernel"] = f"{plants.__name__}.HangingIn16Bits"
        journal.MIN_SECONDS, journal.SHARE = 8.0, 0.0
    if document.workload.name == "hangs":
        by_name.RUNNERS["megakernel"] = f"{plants.__name__}.HangingRunner"
        overruns.MIN_SECONDS = 2.0
    return verify.run(document, context)
