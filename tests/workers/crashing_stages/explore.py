"""Explore, with variants that end its process."""

from tests.workers.crashing_stages.plants import Aborts, Hangs, LosesTheGpu, plant
from workers.harness.cli import main
from workers.measuring import journal
from workers.stages import explore

if __name__ == "__main__":
    plant(Aborts, Hangs, LosesTheGpu)
    journal.LEAST_SECONDS = journal.LONGEST_SECONDS = 10.0
    explore.CASE_RULE.seconds = 0.3
    main(explore.run)
