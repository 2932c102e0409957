"""Verify beside a slow runner, with a plan that loses the GPU and, in a workload of that name, one that hangs."""

from kernels.engine import running
from tests.workers.crashing_stages import plants
from tests.workers.crashing_stages.plants import Crashing, plant
from workers.documents.stages import StageInput, VerifyResult
from workers.harness.cli import main
from workers.harness.context import Context
from workers.measuring import alternation, overruns
from workers.stages import verify


def run(document: StageInput, context: Context) -> VerifyResult:
    """Verify; where the workload's name says so its plans hang, and may do so for 2 s past the stage's time."""
    if document.workload.name == "hangs":
        running.RUNNERS["megakernel"] = f"{plants.__name__}.HangingRunner"
        overruns.LEAST_SECONDS = 2.0
    return verify.run(document, context)


if __name__ == "__main__":
    plant(Crashing)
    running.RUNNERS["compiled"] = "tests.workers.stages.test_confirmed_plans.SlowRunner"
    alternation.LEAST_SECONDS = 0.0
    main(run)
