"""What a tiny stage does: nothing, or on request misbehave. The workload's name is the request: `hang baseline`.

The stages are real ones to everything around them: modules with a `run`, started by the worker in a child process.
"""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.sample_results import results
from workers.documents.stages import StageInput
from workers.harness.context import Context, StageError

SECRETS = ("WORKER_TOKEN", "REDIS_URL", "DATABASE_URL", "SECRET_KEY")


def run(document: StageInput, context: Context) -> Any:
    """Check the surroundings, do what the workload's name asks of this stage, and return a sample result."""
    action, _, stage = document.workload.name.partition(" ")
    context.report_progress(0.5, f"half of {document.stage}")
    _check_surroundings(context)
    if stage in (document.stage, "everywhere"):
        ACTIONS[action](document, context)
    note = context.artifacts / "note.txt"
    note.write_text(document.stage)
    context.save_artifact(note, "note.txt", "text/plain")
    return getattr(results(), document.stage)


def _check_surroundings(context: Context) -> None:
    weights = context.model_dir / "weights.txt"
    if weights.read_text() != "weights\n":
        raise StageError("the model's file is not there", file="weights.txt")
    told = [name for name in SECRETS if name in os.environ]
    if told:
        raise StageError(f"the stage was told {', '.join(told)}")
    _check_no_network()


def _check_no_network() -> None:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("127.0.0.1", 9))
    except OSError:
        return
    raise StageError("the stage can reach the network")


def _worker() -> int:
    """The Celery process that runs the task: the parent of our guard."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def _hang_once(document: StageInput, context: Context) -> None:
    """On the first attempt: start a child of our own, tell who we are, and never end."""
    if document.attempt > 1:
        return
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    _tell(context, {"pid": os.getpid(), "worker": _worker(), "child": child.pid})
    time.sleep(600)


def _tell(context: Context, what: dict[str, Any]) -> None:
    context.report_progress(0.5, json.dumps(what))


def _pause(document: StageInput, context: Context) -> None:
    """Tell who we are and work until the test says that it is enough."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    _tell(context, {"attempt": document.attempt, "pid": os.getpid(), "worker": _worker(), "visible": visible})
    enough = Path(os.environ["WORKBENCH_STAGE_TEST_DIR"], f"{document.run_id}.go")
    while not enough.exists():
        time.sleep(0.05)


def _crash(document: StageInput, context: Context) -> None:
    raise ValueError("the numbers do not add up\nsecond line")


def _tell_who(document: StageInput, context: Context) -> None:
    _tell(context, {"pid": os.getpid()})


ACTIONS = {"tell": _tell_who, "hang": _hang_once, "pause": _pause, "crash": _crash}
