from typing import Literal

DeleteArtifactStage = Literal["admit", "baseline", "compose", "explore", "load", "price", "profile", "report", "verify"]

DELETE_ARTIFACT_STAGE_VALUES: set[DeleteArtifactStage] = {
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


def check_delete_artifact_stage(value: str) -> DeleteArtifactStage:
    if value in DELETE_ARTIFACT_STAGE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {DELETE_ARTIFACT_STAGE_VALUES!r}")
