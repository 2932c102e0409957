from typing import Literal

ModelManifestSource = Literal["catalogue", "upload"]

MODEL_MANIFEST_SOURCE_VALUES: set[ModelManifestSource] = {
    "catalogue",
    "upload",
}


def check_model_manifest_source(value: str) -> ModelManifestSource:
    if value in MODEL_MANIFEST_SOURCE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {MODEL_MANIFEST_SOURCE_VALUES!r}")
