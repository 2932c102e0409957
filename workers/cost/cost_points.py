"""The points of cost against latency: of runs on classes of GPU, of predictions, and of what the customer has."""

from collections.abc import Mapping

from workers.charts import plans
from workers.charts.front import CostPoint, with_front
from workers.charts.under_load import WORDS
from workers.cost.pricing import hourly_price, usd_per_mtok
from workers.documents.base import Verdict
from workers.documents.gpu_class import single_gpu_class
from workers.documents.measurement import Distribution, find_metric, metric_key
from workers.documents.prediction import PredictedPlan, Prediction
from workers.documents.prices import PriceBook
from workers.documents.stages import PlanTrial, Results
from workers.documents.workload import Objective, Workload
from workers.stats.verdicts import overall


def points(
    workload: Workload, book: PriceBook, measured: Mapping[str, Results], predicted: Mapping[str, Prediction]
) -> list[CostPoint]:
    """Every point, by rising latency; [] where the first promise is no time. A class of several GPUs has the plans of
    one as well, which are one point.

    `measured` are the results of a run of the workload by class of GPU, `predicted` what is modelled of other classes.
    """
    first = workload.objectives[0]
    if first.unit != "ms":
        return []
    drawn = [point for gpu_class, results in measured.items() for point in _run_points(gpu_class, results, first, book)]
    modelled: dict[tuple[str, str], CostPoint] = {}
    for gpu_class, prediction in predicted.items():
        points = (_predicted_point(gpu_class, plan, workload, book) for plan in prediction.plans)
        modelled |= {(point.gpu, point.plan): point for point in points if point is not None}
    drawn += modelled.values()
    for results in measured.values():
        if own_points := _customer_points(results, workload):
            return with_front([*drawn, *own_points])
    return with_front(drawn)


def _run_points(gpu_class: str, results: Results, first: Objective, book: PriceBook) -> list[CostPoint]:
    """The plans that compose timed; of what runs today and of the verified plan, verify's figures."""
    if results.compose is None or results.compose.environment.telemetry.void:
        return []
    verify = results.verify if results.verify and not results.verify.environment.telemetry.void else None
    baseline = next((trial.label for trial in results.compose.trials if trial.primary), "")
    of_run = []
    for trial in plans.rank_trials(results):
        if trial.gate != "pass" or trial.primary is None:
            continue
        ms, rate, keeps = trial.primary.value, trial.tokens_per_second, trial.keeps
        group = "today" if trial.label == baseline else "plan"
        if verify is not None and group == "today":
            ms, rate = _median(verify.before, first) or ms, verify.tokens_per_second_before or rate
            keeps = overall([outcome.verdict_before for outcome in verify.outcomes])
        elif verify is not None and trial.chosen:
            ms, rate, keeps = _median(verify.after, first) or ms, verify.tokens_per_second_after or rate, verify.verdict
        if not rate:
            continue
        gpus = int(trial.plan.get("tensor_parallel_size", 1))
        usd = _usd(book, gpu_class, gpus, rate)
        of_run.append(CostPoint(_gpus(gpu_class, gpus), _name(trial), ms, usd, "measured", _words(keeps), group))
    return of_run


def _name(trial: PlanTrial) -> str:
    return f"{trial.label} (verified)" if trial.chosen else trial.label


def _words(verdict: Verdict | None) -> str:
    return WORDS[verdict] if verdict else ""


def _gpus(gpu_class: str, gpus: int) -> str:
    return single_gpu_class(gpu_class) if gpus == 1 else f"{gpus} x {single_gpu_class(gpu_class)}"


def _usd(book: PriceBook, gpu_class: str, gpus: int, rate: float) -> float | None:
    hour = hourly_price(book, gpu_class, gpus)
    return None if hour is None else usd_per_mtok(hour, rate)


def _median(distributions: list[Distribution], first: Objective) -> float | None:
    distribution = find_metric(distributions, metric_key(first))
    return distribution.percentiles.get("p50") if distribution else None


def _predicted_point(gpu_class: str, plan: PredictedPlan, workload: Workload, book: PriceBook) -> CostPoint | None:
    """A prediction at one request at a time; None where the first promise is not predicted."""
    first = workload.objectives[0]
    figures = {metric_key(figure): figure.value for figure in plan.figures if figure.users is None}
    ms, rate = figures.get(metric_key(first)), figures.get(("throughput", None))
    if ms is None or not rate:
        return None
    usd = _usd(book, gpu_class, plan.tensor_parallel_size, rate)
    return CostPoint(_gpus(gpu_class, plan.tensor_parallel_size), f"{plan.runner}, {plan.weights}", ms, usd, "modelled")


def _customer_points(results: Results, workload: Workload) -> list[CostPoint]:
    """What the customer runs: the endpoint as measured, and the present deployment as stated."""
    first, present, points = workload.objectives[0], workload.present, []
    load = results.verify.endpoint.load if results.verify and results.verify.endpoint else None
    if load is not None and not load.lag.void:
        metric = find_metric(load.metrics, metric_key(first))
        hour = present.usd_per_hour if present else None
        if metric is not None and "p50" in metric.percentiles:
            usd = usd_per_mtok(hour, load.tokens_per_second) if hour and load.tokens_per_second else None
            gpu = results.verify.endpoint.server.hardware if results.verify and results.verify.endpoint else ""
            ms, keeps = metric.percentiles["p50"].value, _words(load.verdict)
            points.append(CostPoint(gpu or "not stated", "your endpoint", ms, usd, "measured", keeps, "endpoint"))
    if present and (present.metric, present.n) == (first.metric, first.n) and results.price:
        usd = next((line.usd_per_mtok for line in results.price.lines if line.label == "present deployment"), None)
        points.append(CostPoint(present.gpu, "your deployment", present.latency_ms, usd, "stated", group="stated"))
    return points
