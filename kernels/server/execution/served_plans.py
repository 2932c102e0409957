"""Whether a plan can be served, what it says of its server, and what a server leaves out. Imports without torch."""

from collections.abc import Iterable

from kernels import registry
from kernels.plan import KvCacheDtype, Plan
from kernels.quant.formats import INT4

FULL = ("bf16", "fp16", "fp32")
SERVED = ("int8", "mxfp4", *INT4)
"""The lower precisions that this server holds weights in."""
FP8_VARIANTS = ("skinny_fp8", "small_gemm_fp8")
"""The variants by which passes multiply by the codes of a checkpoint in fp8."""
LOWERED = (
    "skinny_int8",
    "lm_head_skinny_int8",
    "small_gemm_int8",
    "grouped_int8",
    "grouped_mxfp4",
    *(f"skinny_{name}" for name in INT4),
    *FP8_VARIANTS,
)
"""The variants by which passes multiply by such weights, and by fp8. Passes of more than 64 rows take the model's own,
unless a plan names another, and others of more than 16 where that is faster."""


MEGAKERNEL = "megakernel"
MEGAKERNEL_BATCHES = (1, 2, 4, 8)
"""The sequences of the instances."""


def plan_weights(plan: Plan) -> str:
    """The lower precision in which the plan's products hold their weights; "" where they hold the model's own."""
    of_plan = str(plan.options.get("weights", "bf16"))
    lossy = [str(op.case["weights"]) for op in plan.ops if registry.variant(op.variant).lossy]
    lower = [weights for weights in (of_plan, *lossy) if weights not in FULL]
    return next((weights for weights in lower if weights in INT4), lower[0] if lower else "")


def precision_refusal(plan: Plan, stored: str = "") -> str | None:
    """Why a plan that rounds weights is not served; None: it has none but SERVED, or fp8 where `stored` so."""
    served = set(LOWERED).difference(() if stored == "fp8" else FP8_VARIANTS)
    other = [op.variant for op in plan.ops if registry.variant(op.variant).lossy and op.variant not in served]
    weights = plan_weights(plan)
    if weights in ("", stored, *SERVED) and not other:
        return None
    what = other[0] if other else f"its {plan.runner} in {weights}"
    return f"--plan: {what} rounds weights, and this server has no such products for every number of rows"


def plan_sentence(plan: Plan, dtype: str, running: int) -> str:
    """What a server in `dtype` for `running` requests takes of the plan: packed passes have their own kernels."""
    parts = ["the plan's model"]
    if dtype == plan.dtype:
        parts.append(dtype)
    if plan_weights(plan):
        parts.append(f"{plan_weights(plan)} weights")
    if plan.serving and running == plan.serving.max_num_seqs:
        parts.append(f"{running} requests at once")
    what = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
    if plan.runner == "kernels":
        return f"takes {what}, and its variants where they were chosen for the same number of rows"
    if plan.runner == "megakernel":
        return f"takes {what}; the megakernel takes as few requests at once as it is found faster for"
    return f"takes {what}; its runner, {plan.runner}, answers one batch at a time, so packed passes serve in its place"


PASSES = "kernels"
"""The name of the composed kernels as a whole. A server's passes are made of them, so no server can do without."""
VARIANTS = (
    "skinny",
    "lm_head_skinny",
    "small_gemm",
    "gemm_hopper",
    "rmsnorm_triton",
    "gated_triton",
    "rope_triton",
    "decode_split",
    "step_hopper",
    "grouped_hopper",
    *LOWERED,
)
"""The variants that passes use where no plan names others (`kernels.server.execution.ops`), else torch's."""
NAMES = (MEGAKERNEL, *VARIANTS)


def server_exclusions(excluded: Iterable[str], kv_cache_dtype: KvCacheDtype = "auto") -> list[str]:
    """The excluded names that a server can leave out, sorted, and the megakernel beside KV pages in fp8."""
    return sorted(set(NAMES).intersection([*excluded, *([MEGAKERNEL] if kv_cache_dtype == "fp8" else [])]))
