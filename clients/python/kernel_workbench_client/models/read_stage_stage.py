from typing import Literal

ReadStageStage = Literal["admit", "baseline", "compose", "explore", "load", "price", "profile", "report", "verify"]

READ_STAGE_STAGE_VALUES: set[ReadStageStage] = {
    "admit",
    "baseline",
    "compose",
    "explore",
    "load",
    "price",
    "profile",
    "report",
    "verify",
}


def check_read_stage_stage(value: str) -> ReadStageStage:
    if value in READ_STAGE_STAGE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {READ_STAGE_STAGE_VALUES!r}")
