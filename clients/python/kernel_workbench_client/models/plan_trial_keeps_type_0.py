from typing import Literal

PlanTrialKeepsType0 = Literal["met", "missed", "not_enough_samples", "too_close"]

PLAN_TRIAL_KEEPS_TYPE_0_VALUES: set[PlanTrialKeepsType0] = {
    "met",
    "missed",
    "not_enough_samples",
    "too_close",
}


def check_plan_trial_keeps_type_0(value: str) -> PlanTrialKeepsType0:
    if value in PLAN_TRIAL_KEEPS_TYPE_0_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {PLAN_TRIAL_KEEPS_TYPE_0_VALUES!r}")
