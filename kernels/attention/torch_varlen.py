"""torch's attention of packed sequences of different lengths, as a peer."""

import inspect
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from kernels.attention.torch_sdpa import half_only, never
from kernels.hardware import Gpu
from kernels.ops import AttentionCase
from kernels.registry import Refusal, Variant, register

if TYPE_CHECKING:
    import torch


@register
class TorchVarlen(Variant):
    """torch's FlashAttention over packed sequences; repeats heads of k and v, since torch 2.11 has no groups here."""

    name = "torch_varlen"
    op = "attention"
    summary = "torch's FlashAttention over packed sequences"
    peer = True

    def serves(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        if case.lengths is None:
            return Refusal("no lengths are given: this variant reads packed sequences only")
        if case.window is not None:
            return Refusal(f"window is {case.window}: torch's packed attention has none in every version")
        if case.head_dim > 256 or case.head_dim % 8:
            return Refusal(f"head_dim is {case.head_dim}: FlashAttention takes multiples of 8 up to 256")
        return never(case) or half_only(case, gpu)

    def build(self, case: AttentionCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(q, k, v) -> o. Takes no params; raises ValueError when given any, or when the case is not packed."""
        import torch
        from torch.nn.attention.varlen import varlen_attn

        self.refuse_params(params)
        if case.lengths is None:
            raise ValueError("lengths: none are given, and this variant reads packed sequences only")
        starts = torch.tensor([0, *accumulate(case.lengths)], dtype=torch.int32)
        longest, group = max(case.lengths, default=0), case.heads // case.kv_heads
        attention: Callable[..., torch.Tensor] = varlen_attn  # type: ignore[assignment]
        options: dict[str, Any] = {"is_causal": True} if case.causal else {}
        if case.causal and "window_size" in inspect.signature(varlen_attn).parameters:
            options = {"window_size": (-1, 0)}

        def attend(q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor") -> "torch.Tensor":
            nonlocal starts
            starts = starts.to(q.device)
            if group > 1:
                k, v = k.repeat_interleave(group, dim=2), v.repeat_interleave(group, dim=2)
            return attention(q[0], k[0], v[0], starts, starts, longest, longest, **options)[None]

        return attend
