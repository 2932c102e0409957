from typing import Literal

ModelManifestKind = Literal["decoder", "encoder", "other"]

MODEL_MANIFEST_KIND_VALUES: set[ModelManifestKind] = {
    "decoder",
    "encoder",
    "other",
}


def check_model_manifest_kind(value: str) -> ModelManifestKind:
    if value in MODEL_MANIFEST_KIND_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {MODEL_MANIFEST_KIND_VALUES!r}")
