"""Lower precision of the weights: whether a workload allows it, and whether a plan makes use of it."""

from kernels import registry
from kernels.plan import Plan
from workers.documents.model import ModelManifest
from workers.documents.workload import Constraints


def lossy_refusal(weights: str, constraints: Constraints, model: ModelManifest) -> str:
    """The sentence that forbids weights in this lower precision; "" when the workload allows them."""
    if weights not in constraints.precisions:
        return "Lower precision of the weights is not among the precisions that the workload allows."
    if model.generated and not constraints.allow_unverified_quality:
        return (
            "The weights are generated, so quality cannot be measured, and the workload does not say "
            "allow_unverified_quality."
        )
    return ""


def lowers_precision(plan: Plan, served: str) -> bool:
    """Whether the plan runs the model in less than the precision it is served in, or any of its weights."""
    whole = plan.dtype != served or plan.options.get("weights", "bf16") != "bf16"
    return whole or any(registry.variant(op.variant).lossy for op in plan.ops)
