"""The precisions of a model: the one that it is served in today, and lower ones in which plans may hold its weights.

Imports no torch.
"""

from collections.abc import Sequence
from typing import Any, cast

from kernels.model_files.families import stored_experts, stored_rows
from kernels.ops import BYTES
from workers.documents.model import ModelManifest
from workers.documents.workload import Constraints, Precision, Sla

FLOATS = ("bf16", "fp16", "fp32")
NAMES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def own_precision(config: dict[str, Any]) -> str:
    """The precision that a model's configuration names, float32 where it names none."""
    name = str(config.get("dtype") or config.get("torch_dtype") or "float32").removeprefix("torch.")
    return NAMES.get(name, name)


def serving_dtype(own: str, precisions: Sequence[str], gpu_class: str) -> str:
    """The precision that the model is served in before anything is optimised.

    Its own when the workload allows it; on a CPU float32 when allowed, since most CPUs only emulate 16 bits and a
    slow baseline would flatter the result; else the first that is allowed. Where only lower ones are, its own, and
    float32 for float64.
    """
    allowed = [dtype for dtype in FLOATS if dtype in precisions]
    if gpu_class == "cpu" and "fp32" in allowed:
        return "fp32"
    if own in allowed:
        return own
    return allowed[0] if allowed else own if own in FLOATS else "fp32"


def stored_precision(constraints: Constraints, model: ModelManifest) -> list[Precision]:
    """int4 for a model that was stored in four bits, mxfp4 for one whose experts were stored so, fp8 for one whose rows
    were, unless the workload leaves int8 out: a plan in it has the model's own codes, and rounds nothing but the LM
    head, of int4 to int8.
    """
    if "int8" not in constraints.precisions:
        return []
    if model.in_four_bits:
        return ["int4"]
    stored = stored_experts(model.config) or stored_rows(model.config)
    return [stored] if stored else []


def lossy_refusal(weights: str, constraints: Constraints, model: ModelManifest) -> str:
    """The sentence that forbids weights in this lower precision; "" when the workload allows them."""
    if weights not in (*constraints.precisions, *stored_precision(constraints, model)):
        return "Lower precision of the weights is not among the precisions that the workload allows."
    if model.generated and not constraints.allow_unverified_quality:
        return (
            "The weights are generated, so quality cannot be measured, and the workload does not say "
            "allow_unverified_quality."
        )
    return ""


def smallest_precision(sla: Sla, model: ModelManifest) -> Precision:
    """The one with the fewest bytes of those that a plan may hold the model's weights in."""
    constraints = sla.constraints
    rounded = {
        name for name in constraints.precisions if name not in FLOATS and lossy_refusal(name, constraints, model)
    }
    allowed = [name for name in constraints.precisions if name not in rounded]
    return min(allowed or constraints.precisions, key=lambda name: BYTES[name])


def precisions_of_plans(sla: Sla, model: ModelManifest, gpu_class: str) -> tuple[Precision, list[Precision]]:
    """The precision that the model is served in today on the class, and the lower ones that a plan may hold it in."""
    constraints = sla.constraints
    served = cast(Precision, serving_dtype(own_precision(model.config), constraints.precisions, gpu_class))
    allowed = dict.fromkeys([*constraints.precisions, *stored_precision(constraints, model)])
    lower = [precision for precision in allowed if BYTES[precision] < BYTES[served]]
    return served, [precision for precision in lower if not lossy_refusal(precision, constraints, model)]
