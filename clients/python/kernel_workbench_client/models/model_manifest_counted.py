from typing import Literal

ModelManifestCounted = Literal["embeddings", "images", "recordings", "sequences", "tokens"]

MODEL_MANIFEST_COUNTED_VALUES: set[ModelManifestCounted] = {
    "embeddings",
    "images",
    "recordings",
    "sequences",
    "tokens",
}


def check_model_manifest_counted(value: str) -> ModelManifestCounted:
    if value in MODEL_MANIFEST_COUNTED_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {MODEL_MANIFEST_COUNTED_VALUES!r}")
