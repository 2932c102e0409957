from typing import Literal

WorkloadBaselineRunner = Literal["compiled", "eager", "vllm"]

WORKLOAD_BASELINE_RUNNER_VALUES: set[WorkloadBaselineRunner] = {
    "compiled",
    "eager",
    "vllm",
}


def check_workload_baseline_runner(value: str) -> WorkloadBaselineRunner:
    if value in WORKLOAD_BASELINE_RUNNER_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {WORKLOAD_BASELINE_RUNNER_VALUES!r}")
