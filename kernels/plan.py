"""A plan: which variant runs each op of one model on one GPU, with the evidence. Imports without torch."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Runner = Literal["eager", "compiled", "kernels", "megakernel"]


class PlannedOp(BaseModel):
    """The choice for one case; `evidence_id` names the candidate that was measured (`Candidate.id`)."""

    model_config = ConfigDict(extra="forbid")

    op: str
    case: dict[str, Any]
    variant: str
    params: dict[str, Any] = {}
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
    """plan.json. `model_digest` is that of `kernels.engine.weights.digest`; `options` belong to the runner."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    model_digest: str
    gpu: str
    runner: Runner
    dtype: Literal["fp32", "bf16", "fp16"] = "bf16"
    options: dict[str, Any] = {}
    ops: list[PlannedOp] = []
    expected: Expected | None = None
