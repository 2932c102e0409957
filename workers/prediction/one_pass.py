"""Predictions of a model that generates no text: one pass a request."""

from collections.abc import Sequence

from kernels.measure import pass_time
from kernels.measure.forward_pass import ForwardPart, Unpredicted, forward_pass
from kernels.measure.pass_time import pass_ms
from kernels.measure.request_case import cached
from kernels.ops import BYTES
from workers.documents.model import ModelManifest
from workers.documents.prediction import PredictedFigure, PredictedPlan, Prediction
from workers.documents.workload import Precision, Sla, unit_of
from workers.prediction import assumptions
from workers.prediction.plans import BATCHED, excluded, flops, rate_figure, waiting_clients
from workers.prediction.rates import KnownRates


def of_one_pass(
    workload: Sla, model: ModelManifest, gpu_class: str, rates: KnownRates, precisions: Sequence[Precision]
) -> Prediction:
    """The prediction for plans in each of the precisions. The model is served in the first one today."""
    traffic, served = workload.traffic, precisions[0]
    try:
        parts = forward_pass(model.config, model.parameters, traffic.batch, traffic.prompt_tokens)
    except Unpredicted as why:
        return Prediction(missing=[f"Nothing is predicted of {why}."])
    size = sum(part.sizes.body + part.sizes.head for part in parts) * BYTES[served]
    if gpu_class == "cpu" and (small := cached(size)):
        return Prediction(missing=[f"Nothing is predicted of {small}."])
    counted = traffic.batch * (traffic.prompt_tokens if model.counted == "tokens" else 1)
    plans = []
    for runner in ["compiled"] if gpu_class == "cpu" else BATCHED:
        for weights in precisions if gpu_class == "cpu" else [served]:
            if excluded(runner, weights, served, workload):
                continue
            ms = _forward_ms(parts, runner, weights, rates)
            figures = [PredictedFigure(metric=name, value=ms) for name in ("e2e", "batch_latency")]
            figures.append(rate_figure(1000 * counted / ms, unit_of("throughput", model.counted)))
            shown = figures if traffic.concurrency == 1 else []
            plans.append(PredictedPlan(runner=runner, weights=weights, figures=shown))
    return Prediction(plans=plans, assumptions=assumptions.of_one_pass(rates), missing=waiting_clients(workload))


def _forward_ms(parts: Sequence[ForwardPart], runner: str, weights: Precision, rates: KnownRates) -> float:
    by = rates.single.read_tbps, flops(weights, rates.single)
    layers = [pass_time.kernels_layer(part.kernels[runner], rates.kernel_us) for part in parts]
    passes = zip(parts, layers, strict=True)
    return sum(pass_ms(part.sizes, part.work, BYTES[weights], 1.0, by, layer) for part, layer in passes)
