"""Explore, with variants that end its process."""

from tests.workers.crashing_stages.plants import Aborts, Hangs, LosesTheGpu, plant
from workers.documents.stages import ExploreResult, StageInput
from workers.harness.context import Context
from workers.measuring import journal
from workers.stages import explore


def run(document: StageInput, context: Context) -> ExploreResult:
    plant(Aborts, Hangs, LosesTheGpu)
    journal.MIN_SECONDS = journal.LONGEST_SECONDS = 10.0
    explore.CASE_RULE.seconds = 0.3
    return explore.run(document, context)
