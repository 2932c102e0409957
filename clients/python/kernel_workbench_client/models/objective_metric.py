from typing import Literal

ObjectiveMetric = Literal["batch_latency", "cost_per_mtok", "e2e", "itl", "throughput", "tpot", "ttf_n", "ttft"]

OBJECTIVE_METRIC_VALUES: set[ObjectiveMetric] = {
    "batch_latency",
    "cost_per_mtok",
    "e2e",
    "itl",
    "throughput",
    "tpot",
    "ttf_n",
    "ttft",
}


def check_objective_metric(value: str) -> ObjectiveMetric:
    if value in OBJECTIVE_METRIC_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {OBJECTIVE_METRIC_VALUES!r}")
