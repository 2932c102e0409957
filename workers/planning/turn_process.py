"""Measures one side, what runs today or a plan, in a process of its own: both do not fit into memory together."""

import math
import time
from pathlib import Path
from typing import Literal

import torch

from kernels import runners
from kernels.measure.latency import ServedBatch
from kernels.proof.served_ids import Judged, LogitGaps
from kernels.runners import Runner
from kernels.runners.clients import KEPT_BATCHES, Clients, KeptBatch
from kernels.runners.served_answers import judge_kept
from workers.documents.measurement import ServedIds
from workers.documents.quality import Quality
from workers.harness import fresh_processes
from workers.harness.context import Context
from workers.measuring import quality_by_kind
from workers.measuring.alternation import MIN_PAIRS_OF_SEVERAL, warm_clients
from workers.measuring.served_model import load_baseline, planned_runner, prepared, watch_device
from workers.planning.measuring_process import Measured, Task, run_task
from workers.planning.served_checks import judge_served, judged_ids, precisions_of
from workers.stats.sample_sizes import MIN_REQUESTS, needed_batches

MIN_TURNS = 3
"""Of each side. So many ratios have an interval that contains their spread."""
QUALITY = "quality"
"""The folder of what today's side and float32 answered."""

Side = Literal["before", "after"]


class TurnTask(Task):
    """To measure one `side`, in about so many `seconds`. The stage has `seconds_left`. `usd` is the price of the side's
    GPUs in an hour.

    Of today's side `judges` are the turns of the plan whose ids it judges, and `records` says whether it saves what
    quality is measured by; of the plan's, `judges` is its own number and `records` whether it measures its quality.
    """

    side: Side
    judges: list[int]
    records: bool = False
    unverified: bool = False
    seconds: float
    seconds_left: float
    usd: float | None


class TurnResult(Measured):
    """The requests of one side, in order, and what was judged."""

    served: list[ServedBatch]
    served_ids: list[ServedIds] = []
    quality: Quality | None = None
    no_quality: str = ""


def measure(task: TurnTask, context: Context) -> TurnResult:
    """Loads one side, warms it up, serves its requests, and judges what can be judged without the other."""
    document, plan, is_before = task.document, task.plan, task.side == "before"
    context = Context(context.model_dir, context.artifacts, seconds=task.seconds_left)
    context.starts_and_loads = time.monotonic() - task.started_at
    if is_before:
        side = runners.runner(document.workload.baseline_plan_runner, load_baseline(document, context))
    else:
        side = planned_runner(document, context, plan)
    with prepared(side, document) as runner:
        clients = warm_clients(document, runner, task.seed, context.shared)
        ready_seconds = time.monotonic() - task.started_at
        fresh_processes.wait_for_turn()
        with watch_device(document) as environment:
            _serve(clients, task)
        judge = _judge_before if is_before else _judge_after
        return TurnResult(
            environment=environment(),
            starts_and_loads=context.starts_and_loads,
            ready_seconds=ready_seconds,
            served=list(clients.served),
        ).model_copy(update=judge(task, context, runner, clients))


def _serve(clients: Clients, task: TurnTask) -> None:
    """Serves a turn's part of the requests by which the promises are proven, as far as the seconds reach."""
    objectives = task.document.workload.objectives
    until = time.monotonic() + task.seconds
    while True:
        clients.serve()
        done, counts = (
            len(clients.served),
            (needed_batches(objective, [clients.served], task.usd) for objective in objectives),
        )
        enough = done >= math.ceil(max(MIN_REQUESTS, *counts) / MIN_TURNS) or time.monotonic() > until
        if done >= MIN_PAIRS_OF_SEVERAL and enough:
            return


def _judge_before(task: TurnTask, context: Context, runner: Runner, clients: Clients) -> dict[str, object]:
    folder = context.artifacts / QUALITY
    no_quality = quality_by_kind.record(task.document, context, runner, folder) if task.records else ""
    eager, precisions = runners.runner("eager", runner.model), precisions_of(task.plan)
    served_ids, refusal = list[ServedIds](), ""
    for turn in task.judges:
        sample, plan_gaps = torch.load(_sample_file(context, turn))
        batches = [KeptBatch(prompt.to(runner.model.device), *rest) for prompt, *rest in sample]
        gaps, refusal = judge_kept(eager, batches, precisions[0], explained=plan_gaps is not None)
        if gaps is not None:
            lossy = plan_gaps is not None and precisions[0] != precisions[1]
            judged = Judged(gaps, LogitGaps(*plan_gaps) if lossy else None, refusal or None)
            served_ids.append(judged_ids(judged, len(sample)))
        if refusal:
            break
    return {"served_ids": served_ids, "refusal": refusal, "no_quality": no_quality}


def _judge_after(task: TurnTask, context: Context, runner: Runner, clients: Clients) -> dict[str, object]:
    sample = [(batch.prompt.cpu(), batch.tokens, batch.row, batch.output) for batch in clients.sample(KEPT_BATCHES)]
    ids, refusal = judge_served(runner, runner, task.plan, task.document, clients)
    gaps = ids and (ids.mean_gap, ids.largest_gap, ids.tokens)
    torch.save((sample, gaps), _sample_file(context, *task.judges))
    if refusal or not task.records:
        return {"refusal": refusal}
    folder, unverified = context.artifacts / QUALITY, task.unverified
    judged, no_quality = quality_by_kind.measure_recorded(task.document, context, folder, runner, unverified=unverified)
    return {"quality": judged, "no_quality": no_quality}


def _sample_file(context: Context, turn: int) -> Path:
    return context.artifacts / f"sample-{turn}.pt"


if __name__ == "__main__":
    run_task(TurnTask, measure)
