"""What a plan on several GPUs costs beside the best plan on one, in words."""

from collections.abc import Sequence

from kernels.plan import Plan
from workers.cost.pricing import usd_per_mtok
from workers.documents.stages import PlanTrial, VerifyResult
from workers.documents.workload import Objective
from workers.wording.text import plain

WORDS = {2: "Two", 4: "Four"}


def several_gpus(
    verify: VerifyResult, trials: Sequence[PlanTrial], objective: Objective, usd_per_hour: float, counted: str
) -> str:
    """Whether several GPUs cost more than one for each of the `counted`, by the rates that compose measured of both.

    `usd_per_hour` is of one GPU, `objective` the first. "" where the plan is for one GPU, or no rate is known of one.
    """
    if verify.gpus == 1:
        return ""
    verified = Plan.model_validate(verify.plan).model_copy(update={"expected": None, "serving": None})
    planned = [(Plan.model_validate(trial.plan), trial) for trial in trials if trial.tokens_per_second]
    recommended = next((trial for plan, trial in planned if plan == verified), None)
    alone = max((trial for plan, trial in planned if plan.tensor_parallel_size == 1), key=_rate, default=None)
    if recommended is None or alone is None:
        return ""
    several = usd_per_mtok(usd_per_hour * verify.gpus, _rate(recommended))
    single = usd_per_mtok(usd_per_hour, _rate(alone))
    more = "more" if several > single else "less"
    keep = "keep the promise and " if verify.verdict == "met" else ""
    gpus = WORDS.get(verify.gpus, str(verify.gpus))
    sentence = f"{gpus} GPUs {keep}cost {more} per {counted.removesuffix('s')} than one"
    fails = ", which does not keep the promise" if _misses(alone, objective) else ""
    return (
        f"{sentence}: {plain(several)} USD a million against {plain(single)} with {alone.label}{fails}, "
        "by the rates that compose measured of both."
    )


def _rate(trial: PlanTrial) -> float:
    return trial.tokens_per_second or 0.0


def _misses(trial: PlanTrial, objective: Objective) -> bool:
    """Whether the median already lies beyond the limit of the promise."""
    if trial.primary is None or objective.limit is None or objective.percentile < 50:
        return False
    if objective.direction == "at_least":
        return trial.primary.value < objective.limit
    return trial.primary.value > objective.limit
