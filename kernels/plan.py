"""A plan: which variant runs each op of one model on its GPUs, with the evidence. Imports without torch."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

RunnerName = Literal["eager", "compiled", "kernels", "megakernel"]
ON_SEVERAL_GPUS: tuple[RunnerName, ...] = ("eager", "compiled", "megakernel")
"""Runners that shard a model over several GPUs."""
KvCacheDtype = Literal["auto", "fp8"]
"""The precision of a server's KV pages, by vLLM's names: that of the activations, or e4m3."""
MAX_RUNNING, LONGEST_SEQUENCE, MAX_KV_BYTES = 1 << 20, (1 << 31) - 1, 1 << 50
"""What a server takes at most, far beyond what any memory holds: requests at once, tokens, bytes for KV pages."""


class PlannedOp(BaseModel):
    """The choice for one case; `evidence_id` names the candidate that was measured (`Candidate.id`)."""

    model_config = ConfigDict(extra="forbid")

    op: str
    case: dict[str, Any]
    variant: str
    params: dict[str, Any] = {}
    evidence_id: str = ""


class Expected(BaseModel):
    """What the plan reached where it was verified: median and 95 % interval, device, driver and torch."""

    model_config = ConfigDict(extra="forbid")

    metric: str
    n: int | None = None
    unit: str
    value: float
    low: float
    high: float
    device: str
    driver: str | None = None
    torch: str | None = None
    batch: int
    prompt_tokens: int
    output_tokens: int
    concurrency: int = 1


class Serving(BaseModel):
    """What a server of the plan takes where its operator says nothing. With `basis` default nothing was measured.

    `max_model_len` tokens of a sequence (None: the model's own, at most 8,192), `max_num_seqs` requests served at once,
    `kv_bytes` for KV pages in `kv_cache_dtype` (None: what the running requests fill, at most 80 % of the memory that
    is free). A CUDA graph is captured for each number of single tokens in `graph_rows` (none: the defaults up to
    `max_num_seqs`). Up to `megakernel_up_to` requests at once go to the megakernel (None: both are timed when a server
    starts; 0: none do). `token_ms` has the times by which that was decided: by the number of sequences, ms of a token
    by `kernels` and by `megakernel`. The variants in `exclude` are not used.

    With `basis` measured it is what a server chose on `device`, with this driver and this version of torch; elsewhere a
    server decides again. A plan that was not measured does not write these, nor an empty `exclude`, nor pages in the
    precision of the activations, so that older readers take it.
    """

    model_config = ConfigDict(extra="forbid")

    basis: Literal["default", "measured"] = "default"
    max_model_len: int | None = Field(default=None, ge=1, le=LONGEST_SEQUENCE)
    max_num_seqs: int = Field(default=64, ge=1, le=MAX_RUNNING)
    kv_bytes: int | None = Field(default=None, ge=1, le=MAX_KV_BYTES)
    kv_cache_dtype: KvCacheDtype = Field(default="auto", exclude_if=lambda name: name == "auto")
    graph_rows: list[Annotated[int, Field(ge=1, le=MAX_RUNNING)]] = []
    megakernel_up_to: int | None = None
    exclude: list[str] = Field(default=[], exclude_if=lambda names: not names)
    token_ms: dict[int, dict[str, float]] = Field(default={}, exclude_if=lambda times: not times)
    device: str | None = Field(default=None, exclude_if=lambda name: name is None)
    driver: str | None = Field(default=None, exclude_if=lambda name: name is None)
    torch: str | None = Field(default=None, exclude_if=lambda name: name is None)


class Plan(BaseModel):
    """plan.json. `model_digest` names the model (`kernels.model_files.digests`); `options` belong to the runner.

    `tensor_parallel_size` of class `gpu` share the model; a plan for one does not write it. `placement` says how, and
    is written where whole layers run on one after the other, which transformers' own `eager` alone does. `serving` is
    None where this library's server cannot serve the plan.
    """

    model_config = ConfigDict(extra="forbid")

    version: Literal[2] = 2
    model_digest: str
    gpu: str
    tensor_parallel_size: Literal[1, 2, 4] = Field(default=1, exclude_if=lambda count: count == 1)
    placement: Literal["tensor_parallel", "pipeline_parallel"] = Field(
        default="tensor_parallel", exclude_if=lambda way: way == "tensor_parallel"
    )
    runner: RunnerName
    dtype: Literal["fp32", "bf16", "fp16"] = "bf16"
    options: dict[str, Any] = {}
    ops: list[PlannedOp] = []
    expected: Expected | None = None
    serving: Serving | None = None

    @property
    def shards(self) -> int:
        """Shards of the model, each on its GPU; 1 also where the runner shards it, as GPTQ rounds a whole model."""
        rounding = self.options.get("rounding")
        return 1 if isinstance(rounding, Mapping) and rounding.get("method") == "gptq" else self.tensor_parallel_size

    @property
    def sizes(self) -> dict[str, int]:
        """Over how many GPUs `kernels.runners.load` loads the model, by its arguments."""
        if self.placement == "pipeline_parallel":
            return {"pipeline_parallel_size": self.tensor_parallel_size}
        return {"tensor_parallel_size": self.shards}

    @model_validator(mode="after")
    def _sharded(self) -> Self:
        if self.placement == "pipeline_parallel" and (self.runner != "eager" or self.tensor_parallel_size == 1):
            raise ValueError("placement: layers run in turn by the runner eager on several GPUs alone")
        if self.tensor_parallel_size > 1 and self.runner not in ON_SEVERAL_GPUS:
            raise ValueError(f"tensor_parallel_size: {self.runner} runs on one GPU, not on {self.tensor_parallel_size}")
        if self.tensor_parallel_size > 1 and "devices" in self.options:
            raise ValueError("tensor_parallel_size: the option devices names GPUs already; give one of the two")
        return self
