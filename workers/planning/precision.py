"""Lower precision of the weights: whether a plan makes use of it."""

from kernels import registry
from kernels.plan import Plan
from kernels.proof.logit_gate import MAX_DIFFERENCE


def weights_of(plan: Plan) -> list[str]:
    """The precisions that the plan's weights are held in."""
    weights = [str(op.case["weights"]) for op in plan.ops if op.case.get("weights")]
    return [*dict.fromkeys([str(plan.options.get("weights", plan.dtype)), *weights])]


def rounding_of(plan: Plan) -> str:
    """The precision in the plan whose rounding may change the logits most."""
    return max([plan.dtype, *weights_of(plan)], key=lambda name: MAX_DIFFERENCE[name])


def lowers_precision(plan: Plan, served: str) -> bool:
    """Whether the plan runs the model in less than the precision it is served in, or any of its weights."""
    lossy_model = plan.dtype != served or plan.options.get("weights", "bf16") != "bf16"
    return lossy_model or any(registry.variant(op.variant).lossy for op in plan.ops)
