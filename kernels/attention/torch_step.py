"""torch's own decode step: rotation, two writes, products and a softmax over the whole cache."""

from collections.abc import Callable
from typing import Any

from kernels.hardware import Gpu
from kernels.ops import StepAttentionCase
from kernels.registry import Refusal, Variant, register


def refusal(case: StepAttentionCase) -> Refusal | None:
    """The refusal that all variants of the step share."""
    if case.heads % case.kv_heads:
        return Refusal(f"heads is {case.heads}, not a multiple of kv_heads {case.kv_heads}")
    if case.head_dim % 2:
        return Refusal(f"head_dim is {case.head_dim}: a rotation by halves needs an even one")
    if case.window is not None and case.window < 1:
        return Refusal(f"window is {case.window}: a query sees at least itself")
    return None


@register
class TorchStepAttention(Variant):
    """torch's ops, one after the other."""

    name = "torch_step_attention"
    op = "step_attention"
    summary = "torch's rotation, append and attention, one after the other"
    peer = True

    def serves(self, case: StepAttentionCase, gpu: Gpu) -> Refusal | None:
        return refusal(case)

    def build(self, case: StepAttentionCase, params: dict[str, Any]) -> Callable[..., Any]:
        """f(qkv, cos, sin, k_cache, v_cache, position) -> o."""
        from functools import partial

        from kernels.ops.step_attention import step_attention

        if params:
            raise ValueError(f"torch_step_attention takes no params, not {', '.join(sorted(params))}")
        return partial(step_attention, case)
