"""torch's own decode step: rotation, two writes, then products and a softmax over the cache, or flex_attention."""

from collections.abc import Callable
from typing import Any

from kernels.hardware import Gpu
from kernels.ops import StepAttentionCase
from kernels.registry import Peer, Refusal, register
from kernels.torch_compiled import BUILD_SECONDS, compiled, no_compiler, register_compiled


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
class TorchStepAttention(Peer):
    """torch's ops, one after the other."""

    name = "torch_step_attention"
    op = "step_attention"
    summary = "torch's rotation, append and attention, one after the other"

    def serves(self, case: StepAttentionCase, gpu: Gpu) -> Refusal | None:
        return refusal(case)

    def function(self, case: StepAttentionCase) -> Callable[..., Any]:
        from functools import partial

        from kernels.ops.step_attention import step_attention

        return partial(step_attention, case)


register_compiled(TorchStepAttention, "torch's rotation, append and attention")


@register
class TorchStepFlex(Peer):
    """Rotation and append as generated kernels, then flex_attention, for which Inductor has a flash-decoding kernel."""

    name = "torch_step_flex"
    op = "step_attention"
    summary = "torch's rotation, append and flex_attention compiled by Inductor"
    build_seconds = BUILD_SECONDS

    def serves(self, case: StepAttentionCase, gpu: Gpu) -> Refusal | None:
        if case.sinks:
            return Refusal("sinks are given: flex_attention has none")
        return no_compiler(gpu) or refusal(case)

    def function(self, case: StepAttentionCase) -> Callable[..., Any]:
        from functools import partial

        from torch.nn.attention.flex_attention import flex_attention

        from kernels.ops.step_attention import append_step

        rotate, attend = compiled(partial(append_step, case)), compiled(flex_attention)

        def step(*args: Any, **named: Any) -> Any:
            q, at, keys, values = rotate(*args, **named)

            def seen(score: Any, batch: Any, head: Any, query: Any, slot: Any) -> Any:
                inside = slot <= at[batch]
                if case.window is not None:
                    inside = inside & (slot > at[batch] - case.window)
                return score.where(inside, -float("inf"))

            keys, values = (cache.transpose(1, 2) for cache in (keys, values))
            grouped = case.heads != case.kv_heads
            o = attend(q[:, :, None], keys, values, score_mod=seen, enable_gqa=grouped)
            return o.reshape(case.batch, case.heads * case.head_dim)

        return step
