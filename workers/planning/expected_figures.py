"""What another run of a verified plan should measure, for the plan's `expected`."""

from collections.abc import Sequence

from kernels.measure.latency import ServedBatch, pool_samples
from kernels.plan import Expected, Plan
from kernels.runners.whole_model import rebuild_spread
from workers.documents.measurement import Environment, Interval
from workers.documents.stages import StageInput
from workers.measuring.alternation import Alternation
from workers.stats.intervals import independent_spacing, join_processes, thinned_median_interval


def expected_of(
    plan: Plan, document: StageInput, processes: Sequence[Alternation], measured: Environment, usd: float | None
) -> Expected:
    """The first objective's metric, with the interval in which another run of the plan should lie.

    Another run is another process with another build. The interval spans the medians of verify's `processes` and of
    compose, widened by the spread between builds. `measured` is where verify ran; `usd` is the price of its GPUs per
    hour.
    """
    objective, traffic = document.workload.objectives[0], document.workload.traffic

    def median_of(served: Sequence[ServedBatch]) -> Interval:
        samples = pool_samples(served, objective.metric, objective.n, usd)
        return thinned_median_interval(samples, independent_spacing(objective.metric, served))

    intervals = [*(median_of(process.after) for process in processes), *_in_compose(plan, document)]
    spread = rebuild_spread(plan.options)
    return Expected(
        metric=objective.metric,
        n=objective.n,
        unit=objective.unit,
        value=median_of(join_processes([process.after for process in processes])).value,
        low=min(interval.low for interval in intervals) * (1 - spread),
        high=max(interval.high for interval in intervals) * (1 + spread),
        device=measured.device,
        driver=measured.driver or None,
        torch=measured.versions.get("torch"),
        batch=traffic.batch,
        prompt_tokens=traffic.prompt_tokens,
        output_tokens=traffic.output_tokens,
        concurrency=traffic.concurrency,
    )


def _in_compose(plan: Plan, document: StageInput) -> list[Interval]:
    """The medians of the plan in compose, none where another program used the GPU meanwhile."""
    composed = document.results.compose
    if composed is None or composed.environment.telemetry.void:
        return []
    return [trial.primary for trial in composed.trials if trial.primary and Plan.model_validate(trial.plan) == plan]
