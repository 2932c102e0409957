"""What was predicted before the run, beside what the run measured."""

from dataclasses import dataclass

from workers.charts.plans import precisions_of
from workers.documents.measurement import find_metric, metric_key
from workers.documents.prediction import ComparedFigure, PredictedFigure, PredictedPlan
from workers.documents.stages import Results
from workers.documents.workload import metric_title
from workers.wording.text import MISSING, capitalised, quantity


@dataclass(frozen=True)
class PredictionRow:
    """One predicted figure in words, with its signed error; a dash where nothing was measured to compare it with."""

    label: str
    predicted: str
    measured: str
    error: str


def compare_with_measured(results: Results) -> list[ComparedFigure]:
    """The figures of the plan that was verified, each beside its measured median; [] where none counts."""
    plan = _of_the_plan(results)
    figures = plan.figures if plan and not _uncompared(results) else []
    pairs = [(figure, _measured(figure, results)) for figure in figures]
    return [
        ComparedFigure(
            runner=plan.runner, label=_label(figure), unit=figure.unit, predicted=figure.value, measured=measured
        )
        for figure, measured in pairs
        if plan and measured
    ]


def best(results: Results) -> str:
    """The plan whose whole requests are predicted to be fastest: `End-to-end latency p50 38.1 ms with kernels in bf16`;
    "" where none has a predicted time.
    """
    plans = results.admit.predicted.plans if results.admit and results.admit.predicted else []
    times = [(figure, plan) for plan in plans for figure in plan.figures if figure.metric == "e2e"]
    if not times:
        return ""
    figure, plan = min(times, key=lambda time: time[0].value)
    return f"{_label(figure)} {quantity(figure.value, figure.unit)} with {_name(plan)}"


def rows(results: Results) -> list[PredictionRow]:
    """The compared figures; where nothing was compared, every predicted one."""
    figures = compare_with_measured(results)
    if figures:
        return [
            PredictionRow(
                figure.label,
                quantity(figure.predicted, unit),
                quantity(figure.measured, unit),
                f"{100 * figure.error:+.0f} %",
            )
            for figure, unit in ((figure, figure.unit) for figure in figures)
        ]
    plans = results.admit.predicted.plans if results.admit and results.admit.predicted else []
    return [
        PredictionRow(f"{_label(figure)}, {_name(plan)}", quantity(figure.value, figure.unit), MISSING, MISSING)
        for plan in plans
        for figure in plan.figures
    ]


def words(results: Results) -> list[str]:
    """Sentences about the prediction: why it is not compared, what it leaves out, and what it assumes."""
    predicted = results.admit.predicted if results.admit else None
    if predicted is None:
        return []
    uncompared = _uncompared(results) if predicted.plans else ""
    return [*([uncompared] if uncompared else []), *predicted.missing, *predicted.assumptions]


def _uncompared(results: Results) -> str:
    """Why the prediction is not held against a measurement, in a sentence; "" where it is."""
    verify = results.verify
    if verify is None:
        return "Nothing has been measured yet to hold the prediction against."
    if not verify.recommended:
        return "No change is recommended, so there is no plan to hold the prediction against."
    if verify.environment.telemetry.void:
        return "The plan's figures are void, so the prediction is not held against them."
    if _of_the_plan(results) is None:
        return "The plan's runner, precision or number of GPUs was not among those that were predicted."
    return ""


def _of_the_plan(results: Results) -> PredictedPlan | None:
    """What was predicted of plans like the verified one: its runner, as many GPUs, weights in the same precision."""
    if results.verify is None or results.admit is None or results.admit.predicted is None:
        return None
    plan = results.verify.plan
    runner = "cuda_graphs" if (plan.get("options") or {}).get("compile") is False else plan.get("runner")
    dtype = str(plan.get("dtype", "bf16"))
    weights = {name.split("_")[0] for name in precisions_of(plan) - {dtype}} or {dtype}  # int4_zero is a form of int4
    return next(
        (
            plan
            for plan in results.admit.predicted.plans
            if plan.tensor_parallel_size == results.verify.gpus
            and {plan.weights} == weights
            and plan.runner in ("", runner)
        ),
        None,
    )


def _measured(figure: PredictedFigure, results: Results) -> float | None:
    if figure.users is not None:
        curve = results.load.after if results.load else None
        if curve and curve.server.kind == "server" and not curve.server.settings:
            return None  # the server did not take the plan that was predicted
        loads = [load for load in curve.limit.loads if load.verdict is not None] if curve else []
        return next((load.tokens_per_second for load in loads if load.users == figure.users), None)
    distribution = find_metric(results.verify.after if results.verify else [], metric_key(figure))
    return distribution.percentiles.get("p50") if distribution and distribution.samples else None


def _label(figure: PredictedFigure) -> str:
    if figure.users is None:
        name = metric_title(figure.metric, figure.n)
        return f"{capitalised(name)} p50"
    return "Throughput of one user" if figure.users == 1 else f"Throughput of {figure.users} users at once"


def _name(plan: PredictedPlan) -> str:
    kind = f"{plan.runner} in {plan.weights}" if plan.runner else plan.weights
    return kind if plan.tensor_parallel_size == 1 else f"{kind} on {plan.tensor_parallel_size} GPUs"
