"""Verify beside a slow runner, with a plan that loses the GPU."""

from kernels.engine import running
from tests.workers.crashing_stages.plants import Crashing, plant
from workers.harness.cli import main
from workers.measuring import alternation
from workers.stages import verify

if __name__ == "__main__":
    plant(Crashing)
    running.RUNNERS["compiled"] = "tests.workers.stages.test_confirmed_plans.SlowRunner"
    alternation.LEAST_SECONDS = 0.0
    main(verify.run)
