from tests.workers.tiny_stages.behaviour import run
from workers.harness.cli import main

if __name__ == "__main__":
    main(run)
