"""The configuration of a server, resolved in one place for the engine and for the process that compiles ahead of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernels.hardware import Gpu
from kernels.model_files.families import stored_experts, stored_rows
from kernels.plan import Plan, PlannedOp, Serving
from kernels.server.execution.served_plans import (
    FP8_VARIANTS,
    MEGAKERNEL,
    MEGAKERNEL_BATCHES,
    plan_weights,
    server_exclusions,
)
from kernels.server.execution.sizing import RequestedSize
from kernels.server.spec import Spec


@dataclass(frozen=True)
class ServerConfig:
    """What the operator's options and the plan come to. `weights` "": the operator and the plan leave them open."""

    size: RequestedSize
    plan: Plan | None = None
    dtype: str = "bf16"
    tensor_parallel_size: int = 1
    weights: str = ""
    exclude: Sequence[str] = ()

    @property
    def serving(self) -> Serving | None:
        return self.plan.serving if self.plan else None

    @property
    def ops(self) -> Sequence[PlannedOp]:
        """The plan's ops for packed passes."""
        return self.plan.ops if self.plan and self.plan.runner == "kernels" else ()

    @property
    def decodes(self) -> Sequence[int]:
        """The decodes of the passes that the plan names; empty: the default ones."""
        return self.serving.graph_rows if self.serving else ()

    @property
    def megakernel_up_to(self) -> int | None:
        """The most sequences that the plan gives to the megakernel; None: both backends are timed."""
        return self.serving.megakernel_up_to if self.serving else None

    @property
    def max_megakernel_batch(self) -> int:
        """The most sequences that the megakernel may serve at once; 0: none."""
        if MEGAKERNEL in self.exclude:
            return 0
        up_to = MEGAKERNEL_BATCHES[-1] if self.megakernel_up_to is None else self.megakernel_up_to
        return min(self.size.max_num_seqs, up_to)

    def default_weights(self, config: dict[str, Any], gpu: Gpu, tensor_parallel_size: int) -> str:
        """The precision of products where `weights` leaves it open and memory holds its codes beside the model's own
        weights: that of the checkpoint, whose `config` this is, where a Hopper GPU multiplies by it.
        """
        if gpu.sm != 90 or tensor_parallel_size > 1:
            return ""
        fp8 = self.plan is None and self.dtype == "bf16" and not set(FP8_VARIANTS) & set(self.exclude)
        return stored_experts(config) or (stored_rows(config) if fp8 else "")


def server_config(spec: Spec, plan: Plan | None, device: str = "cuda") -> ServerConfig:
    """The operator's options, else the plan's, else the defaults of the type of device. Raises ValueError."""
    size = spec.tensor_parallel_size or (plan.tensor_parallel_size if plan else 1)
    if plan and plan.tensor_parallel_size not in (1, size):
        raise ValueError(f"--tensor-parallel-size: {size}, and the plan is for {plan.tensor_parallel_size} GPUs")
    if plan:
        plan = plan.model_copy(update={"serving": drop_other_sizes(plan.serving, spec)})
    serving = (plan.serving if plan else None) or Serving()
    kv_cache_dtype = spec.kv_cache_dtype or serving.kv_cache_dtype
    return ServerConfig(
        RequestedSize(
            spec.max_model_len, spec.max_num_seqs, spec.kv_bytes or serving.kv_bytes, spec.pause_ms, kv_cache_dtype
        ),
        plan,
        spec.dtype or (plan.dtype if plan else "bf16" if device == "cuda" else "fp32"),
        size,
        spec.weights or (plan_weights(plan) if plan else ""),
        server_exclusions([*spec.exclude, *serving.exclude], kv_cache_dtype),
    )


def drop_other_sizes(serving: Serving | None, spec: Spec) -> Serving | None:
    """The plan's settings of the server; graphs and KV pages are reset if the operator asks for another size."""
    if serving is None or (
        spec.max_num_seqs == serving.max_num_seqs and spec.max_model_len in (None, serving.max_model_len)
    ):
        return serving
    return serving.model_copy(update={"kv_bytes": None, "graph_rows": []})
