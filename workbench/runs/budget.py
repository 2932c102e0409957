"""Divides a workload's minutes among the stages."""

from workbench.runs.models import Run, StageRun
from workers.documents.stages import GPU_STAGES, Stage

USUAL_SHARE = 0.1
SHARES: dict[str, float] = {
    "admit": 0.05,
    "baseline": 0.15,
    "profile": 0.15,
    "explore": 0.20,
    "compose": 0.25,
    "verify": 0.20,
}
"""Fractions of the workload's minutes. A GPU stage that is not listed gets USUAL_SHARE."""
LEAST_SECONDS = 20.0


def seconds_left(run: Run, stage: Stage, minutes: float) -> float:
    """Seconds for `stage`: its share of the time that the earlier stages have left. Waiting in a queue is not counted.

    What a stage does not use goes to those after it; LEAST_SECONDS when nothing is left.
    """
    done = StageRun.objects.filter(run=run, state=StageRun.State.DONE)
    spent = sum(
        (row.finished_at - row.started_at).total_seconds() for row in done if row.finished_at and row.started_at
    )
    if stage not in GPU_STAGES:
        return LEAST_SECONDS
    ahead = sum(_share(name) for name in GPU_STAGES[GPU_STAGES.index(stage) :])
    return max(LEAST_SECONDS, (minutes * 60 - spent) * _share(stage) / ahead)


def _share(stage: Stage) -> float:
    return SHARES.get(stage, USUAL_SHARE)
