from tests.workers.telling_stages.behaviour import run as run
