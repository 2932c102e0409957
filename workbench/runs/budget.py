"""How long a stage of a run may take."""

from workbench.runs.models import Run, StageRun
from workers.documents import budget
from workers.documents.stages import Stage
from workers.documents.workload import Workload


def seconds_left(run: Run, stage: Stage, workload: Workload) -> float:
    """Seconds for `stage`, by what the run's earlier stages took; waiting in a queue is not counted."""
    done = StageRun.objects.filter(run=run, state=StageRun.State.DONE)
    spent = sum(
        (row.finished_at - row.started_at).total_seconds() for row in done if row.finished_at and row.started_at
    )
    return budget.granted(stage, workload, spent)
