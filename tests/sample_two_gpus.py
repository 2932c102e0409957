"""A results document of a plan on two GPUs, which keeps a promise that one cannot and costs more: made-up figures."""

from kernels.plan import Plan
from tests.sample_results import ENVIRONMENT, compose, manifest, results
from tests.sample_results import workload as plain
from workers.documents.measurement import Interval
from workers.documents.prices import default_price_book
from workers.documents.speedup import ProcessMedians, Speedup
from workers.documents.stages import ObjectiveOutcome, PlanTrial, Results
from workers.documents.workload import Objective, Workload
from workers.planning.summaries import describe_plan
from workers.stages.price import price
from workers.stats.intervals import distribution

TPOT = Objective(metric="tpot", percentile=50, limit=2)
BEFORE_MS, ONE_MS, TWO_MS = 11.8, 3.4, 1.8


def workload() -> Workload:
    """A token of the 8B within 2 ms, on one GPU or two."""
    document = plain().model_dump() | {"name": "Two GPUs, test data", "model": "llama-3.1-8b", "present": None}
    document |= {"objectives": [TPOT.model_dump()]}
    document["constraints"] |= {"gpu_classes": ["h200", "h200x2"], "precisions": ["bf16"]}
    return Workload.model_validate(document)


def plan(gpus: int) -> Plan:
    """The megakernel on so many GPUs."""
    return Plan(model_digest="d" * 64, gpu="h200", tensor_parallel_size=gpus, runner="megakernel")


def trial(gpus: int, ms: float, reason: str) -> PlanTrial:
    """What compose keeps of it."""
    made = plan(gpus)
    return PlanTrial(
        label="megakernel" if gpus == 1 else f"megakernel on {gpus} GPUs", summary=describe_plan(made),
        plan=made.model_dump(mode="json"), primary=Interval(value=ms, low=0.999 * ms, high=1.001 * ms),
        tokens_per_second=1000 / ms, gate="pass", chosen=gpus > 1, reason=reason,
    )  # fmt: skip


def two_gpus() -> Results:
    """Every stage but the report."""
    known = results()
    assert known.verify is not None
    eager = (
        compose()
        .trials[0]
        .model_copy(
            update={"primary": Interval(value=BEFORE_MS, low=11.6, high=12.1), "tokens_per_second": 1000 / BEFORE_MS}
        )
    )
    trials = [eager, trial(1, ONE_MS, "1.89 times slower than megakernel on 2 GPUs."), trial(2, TWO_MS, "The best.")]
    chosen = trials[2].plan
    before, after = (
        [distribution([ms * (1 + 0.0001 * index) for index in range(60)], "tpot")] for ms in (BEFORE_MS, TWO_MS)
    )
    ratio = BEFORE_MS / TWO_MS
    medians = [ProcessMedians(before=BEFORE_MS, after=TWO_MS, ratio=ratio, pairs=20) for _ in range(3)]
    outcome = ObjectiveOutcome(
        objective=TPOT, before=BEFORE_MS, after=TWO_MS, verdict_before="missed", verdict="met", samples=60,
        over=0, needed=8,
    )  # fmt: skip
    known.compose = compose().model_copy(update={"trials": trials, "plan": chosen})
    known.verify = known.verify.model_copy(
        update={
            "environment": ENVIRONMENT.model_copy(update={"gpu_class": "h200x2"}),
            "plan": chosen,
            "before": before,
            "after": after,
            "tokens_per_second_before": 1000 / BEFORE_MS,
            "tokens_per_second_after": 1000 / TWO_MS,
            "speedup": Speedup(
                metric=TPOT.label,
                ratio=Interval(value=ratio, low=0.99 * ratio, high=1.01 * ratio),
                noise=Interval(value=1, low=0.999, high=1.001),
                difference=True,
                processes=medians,
            ),
            "outcomes": [outcome],
            "profile": None,
            "sentence": f"The SLA is met. TPOT p50 is {TWO_MS} ms where at most 2 ms is promised; before, it was "
            f"{BEFORE_MS} ms.",
        }
    )
    known.price = price(
        workload(), default_price_book(), "h200x2", known.verify, manifest(), known.load, known.compose.trials
    )
    return known
