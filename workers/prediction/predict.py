"""Predicts what each plan takes that may serve a model, before anything runs: its latencies, and its throughput under
load. Imports no torch.

Formula and assumptions: `docs/method.md`, *prediction*; the time of a pass: `kernels/measure/pass_time.py`.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter

from kernels.measure import pass_time
from kernels.measure.forward_pass import ForwardPart, Unpredicted, forward_pass
from kernels.measure.pass_time import pass_ms
from kernels.measure.request_case import why_cached
from kernels.ops import BYTES
from workers.cost.pricing import usd_per_mtok
from workers.documents.gpu_class import single_gpu_class
from workers.documents.measurement import Ceilings
from workers.documents.model import ModelManifest
from workers.documents.prediction import PredictedFigure, PredictedPlan, Prediction
from workers.documents.workload import Objective, Precision, Sla, unit_of
from workers.prediction import assumptions
from workers.prediction.assumptions import KnownRates, rates_of
from workers.prediction.generation import divides, predict_generation
from workers.prediction.plans import BATCHED, VARIANTS, flops, is_excluded, rate_figure, waiting_clients
from workers.prediction.precisions import precisions_of_plans

__all__ = ["MEDIAN", "divides", "fastest", "predict", "predict_run", "primary_prediction"]

MEDIAN = 50


def predict(
    workload: Sla,
    model: ModelManifest,
    gpu_class: str,
    ceilings: Ceilings | None,
    served: Precision,
    lower: Sequence[Precision] = (),
) -> Prediction:
    """The prediction for plans on a class: one for each runner, number of GPUs and precision that it may have.

    `ceilings` are those of the newest run on the GPU, None where there is none. `served` is the precision that the
    model is served in today, `lower` are those that a plan may hold its weights in.
    """
    rates = rates_of(gpu_class, ceilings)
    if rates is None:
        why = f"Nothing is predicted on {gpu_class}: no datasheet and no earlier run tells its rates."
        return Prediction(missing=[why])
    predictor = predict_generation if model.kind == "decoder" else predict_one_pass
    return predictor(workload, model, gpu_class, rates, [served, *lower])


def predict_run(
    sla: Sla, model: ModelManifest, gpu_class: str, ceilings: Mapping[str, Ceilings], lowered: bool = True
) -> Prediction:
    """The prediction for a run on a class: of plans in the precision that the model is served in there and, where
    `lowered`, in the lower ones that the workload allows. Form, choice of a class and run all predict by this.

    `ceilings` are those that the newest runs measured, by the class of one GPU; without one it is by the datasheet.
    """
    served, lower = precisions_of_plans(sla, model, gpu_class)
    lower = lower if lowered else []
    return predict(sla, model, gpu_class, ceilings.get(single_gpu_class(gpu_class)), served, lower)


def fastest(plans: Sequence[PredictedPlan], objective: Objective) -> tuple[float, PredictedPlan] | None:
    """The least predicted median of the promise's time at one request at a time, with its plan; None without one."""
    values = ((_value(plan, objective.metric, objective.n), plan) for plan in plans if objective.unit == "ms")
    return min(((value, plan) for value, plan in values if value is not None), key=itemgetter(0), default=None)


def primary_prediction(
    objective: Objective,
    prediction: Prediction,
    variant: str,
    served: Precision,
    tensor_parallel_size: int = 1,
    usd_per_hour: float | None = None,
) -> float | None:
    """The median that is predicted of an objective's metric for a whole-model variant on so many GPUs; None where none
    is. A rate, of throughput, is better where it is higher.

    The variant holds weights as they are `served`, unless its name lowers them. `usd_per_hour` is the price of all GPUs
    of the plan, without which no cost is predicted. The gap between two tokens is the mean one.
    """
    runner, lower = VARIANTS.get(variant, ("", None))
    key = (runner, lower or served, tensor_parallel_size)
    plan = next(
        (plan for plan in prediction.plans if (plan.runner, plan.weights, plan.tensor_parallel_size) == key), None
    )
    if plan is None:
        return None
    if objective.metric == "cost_per_mtok":
        rate = _value(plan, "throughput")
        return usd_per_mtok(usd_per_hour, rate) if usd_per_hour and rate else None
    return _value(plan, "tpot" if objective.metric == "itl" else objective.metric, objective.n)


def _value(plan: PredictedPlan, metric: str, n: int | None = None) -> float | None:
    """The plan's figure at one request at a time."""
    key = (metric, n, None)
    return next((figure.value for figure in plan.figures if (figure.metric, figure.n, figure.users) == key), None)


def predict_one_pass(
    workload: Sla, model: ModelManifest, gpu_class: str, rates: KnownRates, precisions: Sequence[Precision]
) -> Prediction:
    """The prediction for plans in each of the precisions. The model is served in the first one today."""
    traffic, served = workload.traffic, precisions[0]
    try:
        parts = forward_pass(model.config, model.parameters, traffic.batch, traffic.prompt_tokens)
    except Unpredicted as why:
        return Prediction(missing=[f"Nothing is predicted of {why}."])
    size = sum(part.sizes.body + part.sizes.head for part in parts) * BYTES[served]
    if gpu_class == "cpu" and (small := why_cached(size)):
        return Prediction(missing=[f"Nothing is predicted of {small}."])
    counted = traffic.batch * (traffic.prompt_tokens if model.counted == "tokens" else 1)
    plans = []
    for runner in ["compiled"] if gpu_class == "cpu" else BATCHED:
        for weights in precisions if gpu_class == "cpu" else [served]:
            if is_excluded(runner, weights, served, workload):
                continue
            ms = _forward_ms(parts, runner, weights, rates)
            figures = [PredictedFigure(metric=name, value=ms) for name in ("e2e", "batch_latency")]
            figures.append(rate_figure(1000 * counted / ms, unit_of("throughput", model.counted)))
            shown = figures if traffic.concurrency == 1 else []
            plans.append(PredictedPlan(runner=runner, weights=weights, figures=shown))
    return Prediction(
        plans=plans, assumptions=assumptions.one_pass_assumptions(rates), missing=waiting_clients(workload)
    )


def _forward_ms(parts: Sequence[ForwardPart], runner: str, weights: Precision, rates: KnownRates) -> float:
    by = rates.single.read_tbps, flops(weights, rates.single)
    layers = [pass_time.kernels_layer(part.kernels[runner], rates.kernel_us) for part in parts]
    passes = zip(parts, layers, strict=True)
    return sum(pass_ms(part.sizes, part.work, BYTES[weights], 1.0, by, layer) for part, layer in passes)
