from tests.workers.process_stages.behaviour import run as run
