"""Tensor parallelism or replicas: which needs fewer GPUs for the users that a workload asks for, by predictions.

One engine over several GPUs reads the weights once for all its users; replicas divide the users among engines.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernels.plan import Plan
from workers.cost.pricing import hourly_price, usd_per_mtok
from workers.documents.prediction import Prediction
from workers.documents.prices import PriceBook
from workers.documents.stages import PlanTrial, VerifyResult
from workers.documents.workload import Objective, Workload
from workers.wording.text import dollars, plain, quantity


@dataclass(frozen=True)
class Arrangement:
    """`engines` over `size` GPUs each; `ms` of the promise's metric, and what an hour of all GPUs costs."""

    size: int
    engines: int
    ms: float
    usd_per_hour: float | None

    @property
    def gpus(self) -> int:
        return self.size * self.engines

    @property
    def words(self) -> str:
        each = "one GPU" if self.size == 1 else f"{self.size} GPUs"
        return f"one engine over {each}" if self.engines == 1 else f"{self.engines} replicas of {each} each"

    @property
    def figures(self) -> str:
        cost = f", {dollars(self.usd_per_hour)} an hour" if self.usd_per_hour else ""
        return f"{self.words} ({quantity(self.ms, 'ms')}{cost})"

    @property
    def options(self) -> str:
        return f"--tensor-parallel-size {self.size} --data-parallel-size {self.engines}"


def sentence(workload: Workload, prediction: Prediction | None, book: PriceBook, gpu_class: str, fewest: int) -> str:
    """What each number of GPUs an engine takes for all users within the first promise, and the cheapest.

    `fewest` GPUs hold the model. "" where engines take one number alone, where no load is predicted, and where the
    promise is not one of a token's or an answer's time.
    """
    objective = workload.objectives[0]
    if prediction is None or workload.load is None or objective.limit is None:
        return ""
    sizes = sorted({plan.tensor_parallel_size for plan in prediction.plans if plan.tensor_parallel_size >= fewest})
    curves = {size: _token_ms(prediction, size) for size in sizes}
    tokens = _tokens(workload)
    if len(sizes) < 2 or tokens is None or not all(curves.values()):
        return ""
    users = workload.load.most_users
    what = f"{users:,} users at once within {quantity(objective.limit, 'ms')}"
    able: list[Arrangement] = []
    for size, curve in curves.items():
        most = max((count for count, ms in curve.items() if tokens * ms <= objective.limit), default=0)
        if most:
            engines = -(-users // most)
            ms = tokens * curve[1 << (-(-users // engines) - 1).bit_length()]  # predicted for powers of two
            able.append(Arrangement(size, engines, ms, hourly_price(book, gpu_class, size * engines)))
    if not able:
        return f"Predicted: neither tensor parallelism nor replicas serve {what}."
    best = min(able, key=lambda each: (each.gpus, each.ms))
    listed = "; ".join(item.figures for item in able)
    return f"Predicted for {what}: {listed}. The fewest GPUs: {best.words} (kernels serve {best.options})."


def _token_ms(prediction: Prediction, size: int) -> dict[int, float]:
    """The least time of a token by the number of users of an engine over so many GPUs."""
    plans = (plan for plan in prediction.plans if plan.tensor_parallel_size == size)
    known: dict[int, float] = {}
    for figure in (figure for plan in plans for figure in plan.figures):
        if users := figure.users:
            known[users] = min(known.get(users, math.inf), 1000 * users / figure.value)
    return known


def _tokens(workload: Workload) -> int | None:
    """Of how many tokens' times the first promise is; None where it is another time, such as that of the first one."""
    objective, output = workload.objectives[0], workload.traffic.output_tokens
    if objective.metric in ("tpot", "itl"):
        return 1
    return output if objective.metric == "e2e" or (objective.metric, objective.n) == ("ttf_n", output) else None


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
