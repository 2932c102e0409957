"""The gate of whole models: whether a runner's logits are the model's, up to the rounding of its precision."""

from typing import TYPE_CHECKING

from kernels.quant.formats import INT4

if TYPE_CHECKING:
    import torch

MAX_DIFFERENCE = {"bf16": 0.06, "fp16": 0.03, "fp32": 0.01, "fp8": 0.25, "int8": 0.5, "nvfp4": 0.9} | dict.fromkeys(
    (*INT4, "mxfp4"), 0.9
)
"""Largest relative difference of logits that rounding to a precision explains.

On an H200 bf16 showed 2 %, fp8 15 % and NVFP4 49 %; logits of unlike models differ by about 1.4.
"""


OWN_TIMES = 1.5
"""How often a mixture's own difference, between two orders of torch's sums, another order may differ from it."""


def difference(logits: "torch.Tensor", expected: "torch.Tensor", boxes: int = 0, prompt: int = 0) -> float:
    """‖logits − expected‖ / ‖expected‖ over all elements; NaN if any logit is NaN.

    It is the larger one of two parts where the last `boxes` values of each row are coordinates, or where the first
    `prompt` of [batch, length, vocab] are a prompt, which a pass of its own reads.
    """
    if boxes or prompt:
        at, dim = (-boxes, -1) if boxes else (prompt, 1)
        parts = [tensor.tensor_split([at], dim) for tensor in (logits, expected)]
        return float(logits.new_tensor([difference(*pair) for pair in zip(*parts, strict=True)]).max())
    return float((logits - expected).norm() / expected.norm().clamp_min(1e-30))


def refusal(difference: float, precision: str, own: float = 0.0) -> str | None:
    """A sentence if a relative difference is too large for the precision, else None. `own` is a mixture's from itself
    where torch adds in another order: rounding then chooses other experts.
    """
    allowed = max(MAX_DIFFERENCE[precision], OWN_TIMES * own)
    if difference <= allowed:
        return None
    explained = f"rounding to {precision} explains {100 * allowed:.0f} %"
    return f"Its logits differ from the model's by {100 * difference:.1f} %; {explained}."
