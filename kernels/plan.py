"""A plan: which variant runs each op of one model on one GPU, with the evidence. Imports without torch."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

PARAMS_OF_VERSION_1 = {
    "overlap": "pdl",
    "ahead": "l2_prefetch",
    "late": "late_trigger",
    "claims": "dynamic",
    "turns": "ping_pong",
    "two_levels": "promote",
}
"""Keys of params in documents of version 1, and what they are called now."""


def current_params(params: Any) -> Any:
    """A variant's params with the keys of version 1 renamed; anything but a mapping as it is."""
    if not isinstance(params, Mapping):
        return params
    return {PARAMS_OF_VERSION_1.get(name, name): value for name, value in params.items()}


Params = Annotated[dict[str, Any], BeforeValidator(current_params)]
"""A variant's params as documents hold them; those of version 1 are translated when they are read."""

Runner = Literal["eager", "compiled", "kernels", "megakernel"]


class PlannedOp(BaseModel):
    """The choice for one case; `evidence_id` names the candidate that was measured (`Candidate.id`)."""

    model_config = ConfigDict(extra="forbid")

    op: str
    case: dict[str, Any]
    variant: str
    params: Params = {}
    evidence_id: str = ""


class Expected(BaseModel):
    """What the plan reached where it was verified: the metric's median and 95 % interval on `device`."""

    model_config = ConfigDict(extra="forbid")

    metric: str
    n: int | None = None
    unit: str
    value: float
    low: float
    high: float
    device: str
    batch: int
    prompt_tokens: int
    output_tokens: int
    concurrency: int = 1


class Plan(BaseModel):
    """plan.json. `model_digest` names the model (`kernels.model_files.digests`); `options` belong to the runner.

    Version 1 differs in the keys of params and in what the digest covers (`plan_digest`).
    """

    model_config = ConfigDict(extra="forbid")

    version: Literal[1, 2] = 2
    model_digest: str
    gpu: str
    runner: Runner
    dtype: Literal["fp32", "bf16", "fp16"] = "bf16"
    options: dict[str, Any] = {}
    ops: list[PlannedOp] = []
    expected: Expected | None = None
