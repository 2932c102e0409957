from tests.workers.tiny_stages.behaviour import run as run
