from typing import Literal

ModelOutKindType0 = Literal["decoder", "encoder", "other"]

MODEL_OUT_KIND_TYPE_0_VALUES: set[ModelOutKindType0] = {
    "decoder",
    "encoder",
    "other",
}


def check_model_out_kind_type_0(value: str) -> ModelOutKindType0:
    if value in MODEL_OUT_KIND_TYPE_0_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {MODEL_OUT_KIND_TYPE_0_VALUES!r}")
