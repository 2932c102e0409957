from tests.workers.slow_stages.behaviour import run as run
