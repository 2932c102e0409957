"""The build gate of the command line in the public API: a run held against a kept one."""

import uuid
from typing import Any

from ninja import Query, Router

from workbench.api.sentences import Problem, invalid
from workbench.intake.models import Unreadable
from workbench.runs import services
from workbench.runs.api import own_run
from workbench.runs.models import Run
from workbench.runs.schemas import Comparison
from workers.stats.regression import KeptRun, NotComparable, TooFewProcesses, judge
from workers.wording.text import moment

router = Router(tags=["runs"])


@router.get("/runs/{uuid:run_id}/comparison", response=Comparison, summary="Hold a run against a kept one")
def compare_runs(
    request: Any,
    run_id: uuid.UUID,
    kept_id: uuid.UUID,
    percent: float = Query(3.0, gt=0, le=100, description="how much worse than the kept run it may be"),
) -> dict[str, Any]:
    """Whether the run is worse than a kept one of the same model, GPU, traffic and first objective: a build's gate."""
    if run_id == kept_id:
        raise invalid([{"field": "kept_id", "reason": "names the same run; give a kept one"}])
    new, reference = (own_run(request, key) for key in (run_id, kept_id))
    try:
        comparison = judge(_comparable(reference), _comparable(new), percent / 100)
    except (NotComparable, TooFewProcesses, Unreadable) as error:
        raise Problem(409, str(error)) from error
    ratios, sentence = comparison.ratios, comparison.sentence
    return {
        "run": new.id,
        "kept": reference.id,
        "ratios": ratios,
        "regressed": comparison.regressed,
        "sentence": sentence,
    }


def _comparable(run: Run) -> KeptRun:
    """What is compared of a run. Raises Unreadable."""
    name = f"run {str(run.id)[:8]} of {moment(run.created_at, 'minute')}"
    return KeptRun(name, run.workload.model.digest, run.workload.sla, services.results(run))
