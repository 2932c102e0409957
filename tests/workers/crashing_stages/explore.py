"""Explore, with variants that end its process."""

from tests.workers.crashing_stages.plants import Aborts, LosesTheGpu, plant
from workers.harness.cli import main
from workers.stages import explore

if __name__ == "__main__":
    plant(Aborts, LosesTheGpu)
    explore.CASE_RULE.seconds = 0.3
    main(explore.run)
