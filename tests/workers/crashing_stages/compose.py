"""Compose on a CPU as on a GPU: one plan loses the GPU, one hangs, and a variant crashes where a model runs it."""

from kernels import registry
from kernels.hardware import GPUS
from kernels.runners.pass_timer import GraphTimer
from tests.workers.crashing_stages.plants import AbortsInAModel, Crashing, HangingModel, plant
from workers.documents.stages import ComposeResult, StageInput
from workers.harness.context import Context
from workers.measuring import journal
from workers.planning import kernels_plan
from workers.stages import compose


def run(document: StageInput, context: Context) -> ComposeResult:
    plant(AbortsInAModel, Crashing, HangingModel)
    registry.variant("kernels").serves = lambda case, gpu: None
    kernels_plan.composes = lambda document, model: True
    kernels_plan.pass_timer = lambda document, model, traffic, watch: GraphTimer(model, GPUS["cpu"], traffic, watch)
    compose.MEASURE_SECONDS = 0.3
    journal.MIN_SECONDS, journal.SHARE = 8.0, 0.0
    return compose.run(document, context)
