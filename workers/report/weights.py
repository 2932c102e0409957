"""What weights in lower precision bring and cost, in a sentence."""

from kernels.ops import BYTES, MODEL_BYTES
from kernels.quant.formats import of_dense, of_head
from workers.charts.plans import precisions_of
from workers.documents.stages import VerifyResult
from workers.wording.text import number, when


def words(verify: VerifyResult) -> str:
    """`Weights in int8 take 1.06 bytes each in place of 2; the mean KL divergence is …`; "" where none are rounded.

    The bytes are those of the plan's smallest weights. Of generated weights, classes and vectors no divergence is told.
    """
    dtype, quality = str(verify.plan.get("dtype") or "bf16"), verify.quality
    smallest = min(precisions_of(verify.plan), key=lambda name: BYTES[name])
    if BYTES[smallest] >= BYTES["bf16"]:
        return ""
    brings = (
        f"Weights in {smallest.split('_')[0]} take {MODEL_BYTES[smallest]:.3g} bytes each in place of {BYTES[dtype]:g}"
    )
    head = of_head(smallest) or dtype
    others = "those of the LM head" if of_dense(smallest) else "those of other matrices"
    brings += f", {others}, in {head}, {MODEL_BYTES[head]:.3g}" if head != smallest else ""
    if quality is None or quality.kl_before is None or quality.called != "quality":
        return f"{brings}."
    before = when(verify.compared_with)
    return (
        f"{brings}; the mean KL divergence from float32 is {number(quality.kl_after)} nats after and "
        f"{number(quality.kl_before)} {before}."
    )
