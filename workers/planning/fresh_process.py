"""Measures the present deployment and a plan alternately: `python -m workers.planning.fresh_process IN.json OUT.json`.

The verify stage starts this process, so it runs in the stage's confinement and ends with it.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

from pydantic import Field

from kernels import runners
from kernels.measure.latency import ServedBatch
from kernels.plan import Plan
from workers.documents.base import Document
from workers.documents.measurement import Environment, ServedIds
from workers.documents.stages import StageFailure, StageInput
from workers.harness import fresh_processes
from workers.harness.context import Context, StageError
from workers.measuring.alternation import warm_clients
from workers.measuring.served_model import load_today, planned, prepared, watched
from workers.planning.served_checks import judge_served
from workers.wording.errors import error_sentence

Task = TypeVar("Task", bound=Document)


class VerifyTask(Document):
    """What the process is to measure: `pairs` of requests, one of each side, with prompts from `seed`.

    `document` is the verify stage's input. The process was `started_at`, by the machine's monotonic clock.
    """

    document: StageInput
    plan: Plan
    pairs: int
    seed: int
    started_at: float = Field(default_factory=time.monotonic)


class Result(Document):
    """The requests of both sides, in order, and the environment in which they were served. The start of the process and
    its loads of weights took `starts_and_loads` seconds; both sides were warm `ready_seconds` after it was started.

    `served_ids` is the judgement on the ids of the plan's timed requests. `refusal` says why these requests are not
    valid: their ids are not the model's, or they are faster than the chip allows; "" if they are valid.
    """

    environment: Environment
    starts_and_loads: float = 0.0
    ready_seconds: float = 0.0
    before: list[ServedBatch]
    after: list[ServedBatch]
    served_ids: ServedIds | None = None
    refusal: str = ""


def measure(request: VerifyTask, context: Context) -> Result:
    """Loads the model for each side and warms both up. When its turn has come, it serves requests of both alternately,
    and judges the plan's ids.
    """
    document, plan = request.document, request.plan
    context.starts_and_loads = time.monotonic() - request.started_at
    model = load_today(document, context)
    with (
        prepared(runners.runner(document.workload.present_runner, model), document) as today,
        prepared(planned(document, context, plan, model), document) as after,
    ):
        sides = [warm_clients(document, runner, request.seed, context.shared) for runner in (today, after)]
        ready_seconds = time.monotonic() - request.started_at
        fresh_processes.wait_for_turn()
        with watched(document) as environment:
            for _ in range(request.pairs):
                for side in sides:
                    side.serve()
        judged, refusal = judge_served(runners.runner("eager", model), after, plan, document, sides[1])
    return Result(
        environment=environment(),
        starts_and_loads=context.starts_and_loads,
        ready_seconds=ready_seconds,
        before=list(sides[0].served),
        after=list(sides[1].served),
        served_ids=judged,
        refusal=refusal,
    )


def ending(code: int, result: Path) -> str:
    """How a process with an exit code other than 0 ended, and why where it has written that in place of its result."""
    why = StageFailure.model_validate_json(result.read_bytes()).sentence if result.exists() else ""
    return f"ended with code {code}" + (f": {why}" if why else "")


def run_task(kind: type[Task], measure: Callable[[Task, Context], Document], description: str) -> NoReturn:
    """Runs the command line's measurement, writes its result, or why there is none, and ends the process."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("request", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--model", type=Path, required=True, help="directory with the model's files")
    parser.add_argument("--artifacts", type=Path, required=True, help="scratch directory")
    options = parser.parse_args()
    request = kind.model_validate_json(options.request.read_bytes())
    try:
        result = measure(request, Context(options.model, options.artifacts))
    except Exception as error:
        sentence = str(error).rstrip(".") if isinstance(error, StageError) else error_sentence(error)
        options.result.write_text(StageFailure(sentence=sentence).model_dump_json())
        raise
    options.result.write_text(result.model_dump_json())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # compilers' pools of processes would hold it up


if __name__ == "__main__":
    run_task(VerifyTask, measure, "Measure what runs today and a plan in a fresh process.")
