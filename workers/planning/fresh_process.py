"""Measures what runs today and a plan, in turns, in a process of its own: `fresh_process request.json result.json`.

Verify starts it, so it runs in verify's confinement and dies with it.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kernels import engine
from kernels.measure.latency import Served
from kernels.plan import Plan
from kernels.proof.logit_gate import LARGEST_DIFFERENCE
from workers.documents.base import Document
from workers.documents.measurement import Environment, ServedIds
from workers.documents.stages import StageInput
from workers.harness.context import Context
from workers.measuring.alternation import warm_clients
from workers.measuring.conditions import watched
from workers.measuring.served_model import load, planned, prepared
from workers.planning.precision import rounding_of
from workers.planning.served_checks import judge_ids, too_fast


class VerifyTask(Document):
    """The document of verify, the plan beside what runs today, the interleaved `pairs`, and the prompts' `seed`."""

    document: StageInput
    plan: Plan
    pairs: int
    seed: int


class Result(Document):
    """What was served, in order, and where; `served_ids` are those of the plan's timed requests, judged.

    `refusal` says why the plan's requests do not count: other ids than the model's, or faster than its chip could be.
    """

    environment: Environment
    before: list[Served]
    after: list[Served]
    served_ids: ServedIds | None = None
    refusal: str = ""


def measure(request: VerifyTask, context: Context) -> Result:
    """Loads the model once for each side, warms both up and serves them in turns; then the plan's ids are judged."""
    document, plan = request.document, request.plan
    model = load(document, context)
    with (
        prepared(engine.runner(document.workload.present_runner, model), document) as today,
        prepared(planned(document, context, plan), document) as after,
    ):
        sides = [warm_clients(document, runner, request.seed) for runner in (today, after)]
        with watched(document) as environment:
            for _ in range(request.pairs):
                for side in sides:
                    side.serve()
        judged = judge_ids(engine.runner("eager", model), sides[1].kept, LARGEST_DIFFERENCE[rounding_of(plan)])
        wrong = judged.sentence if judged is not None and not judged.acceptable else ""
        refusal = wrong or too_fast(after, plan, document, sides[1]) or ""
    return Result(
        environment=environment(),
        before=list(sides[0].served),
        after=list(sides[1].served),
        served_ids=judged,
        refusal=refusal,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure what runs today and a plan in a fresh process.")
    parser.add_argument("request", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--model", type=Path, required=True, help="directory with the model's files")
    parser.add_argument("--artifacts", type=Path, required=True, help="scratch directory")
    given = parser.parse_args(arguments)
    request = VerifyTask.model_validate_json(given.request.read_bytes())
    result = measure(request, Context(given.model, given.artifacts))
    given.result.write_text(result.model_dump_json())


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # compilers' pools of processes would hold it up
