from typing import Literal

DeploymentMetric = Literal["batch_latency", "cost_per_mtok", "e2e", "itl", "throughput", "tpot", "ttf_n", "ttft"]

DEPLOYMENT_METRIC_VALUES: set[DeploymentMetric] = {
    "batch_latency",
    "cost_per_mtok",
    "e2e",
    "itl",
    "throughput",
    "tpot",
    "ttf_n",
    "ttft",
}


def check_deployment_metric(value: str) -> DeploymentMetric:
    if value in DEPLOYMENT_METRIC_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {DEPLOYMENT_METRIC_VALUES!r}")
