from typing import Literal

ReadArtifactStage = Literal["admit", "baseline", "compose", "explore", "load", "price", "profile", "report", "verify"]

READ_ARTIFACT_STAGE_VALUES: set[ReadArtifactStage] = {
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


def check_read_artifact_stage(value: str) -> ReadArtifactStage:
    if value in READ_ARTIFACT_STAGE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {READ_ARTIFACT_STAGE_VALUES!r}")
