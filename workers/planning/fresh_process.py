"""Measures the present deployment and a plan alternately, in a process of its own."""

import time

from kernels import runners
from kernels.measure.latency import ServedBatch
from workers.documents.measurement import ServedIds
from workers.harness import fresh_processes
from workers.harness.context import Context
from workers.measuring.alternation import warm_clients
from workers.measuring.served_model import load_baseline, planned_runner, prepared, watch_device
from workers.planning.measuring_process import Measured, Task, run_task
from workers.planning.served_checks import judge_served


class VerifyTask(Task):
    """To measure `pairs` of requests, one of each side."""

    pairs: int


class Result(Measured):
    """The requests of both sides, in order. `served_ids` is the judgement on the ids of the plan's timed requests."""

    before: list[ServedBatch]
    after: list[ServedBatch]
    served_ids: ServedIds | None = None


def measure(request: VerifyTask, context: Context) -> Result:
    """Loads and warms up both sides, serves them alternately when its turn has come, and judges the plan's ids."""
    document, plan = request.document, request.plan
    context.starts_and_loads = time.monotonic() - request.started_at
    model = load_baseline(document, context)
    with (
        prepared(runners.runner(document.workload.baseline_plan_runner, model), document) as before,
        prepared(planned_runner(document, context, plan, model), document) as after,
    ):
        sides = [warm_clients(document, runner, request.seed, context.shared) for runner in (before, after)]
        ready_seconds = time.monotonic() - request.started_at
        fresh_processes.wait_for_turn()
        with watch_device(document) as environment:
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


if __name__ == "__main__":
    run_task(VerifyTask, measure)
