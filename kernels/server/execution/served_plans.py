"""Whether a plan can be served, and what it says of its server. Imports without torch."""

from kernels import registry
from kernels.plan import Plan

FULL = ("bf16", "fp16", "fp32")


def precision_refusal(plan: Plan) -> str | None:
    """Why a plan that rounds weights is not served, in a sentence; None where it rounds none."""
    whole = str(plan.options.get("weights", "bf16"))
    lossy = [op.variant for op in plan.ops if registry.variant(op.variant).lossy]
    if whole in FULL and not lossy:
        return None
    what = lossy[0] if lossy else f"its {plan.runner} in {whole}"
    return f"--plan: {what} rounds weights, and this server has no such products for every number of rows yet"


def taken_of_plan(plan: Plan, dtype: str, running: int) -> str:
    """What a server in `dtype` of `running` requests at once takes of the plan, in a sentence: packed passes of many
    requests have kernels of their own.
    """
    taken = ["the plan's model"]
    if dtype == plan.dtype:
        taken.append(dtype)
    if plan.serving and running == plan.serving.max_num_seqs:
        taken.append(f"{running} requests at once")
    what = " and ".join(filter(None, [", ".join(taken[:-1]), taken[-1]]))
    if plan.runner == "kernels":
        return f"takes {what}, and its variants where they were chosen for the same number of rows"
    if plan.runner == "megakernel":
        return f"takes {what}; the megakernel takes as few requests at once as it is found faster for"
    return f"takes {what}; its runner, {plan.runner}, answers one batch at a time, so packed passes serve in its place"
