"""torch's flash kernels for one query over a long cache, as peers: packed groups of heads, and flex_attention."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kernels.attention.torch_sdpa import HALVES, SdpaCudnn, SdpaFlash, never
from kernels.hardware import Gpu
from kernels.ops import AttentionCase
from kernels.registry import Peer, Refusal, register, register_like
from kernels.torch_compiled import BUILD_SECONDS, compiled

if TYPE_CHECKING:
    import torch


def _one_query(case: AttentionCase, gpu: Gpu) -> Refusal | None:
    if gpu.gpu_class == "cpu":
        return Refusal("device is CPU: this variant calls kernels of GPUs")
    if case.q_len != 1:
        return Refusal(f"q_len is {case.q_len}: this variant is for one query")
    if case.window is not None:
        return Refusal(f"window is {case.window}: this variant takes no mask")
    return None


class _Packed(Peer):
    """Heads that share keys are the queries of one: a flash kernel reads each key once, and needs no mask."""

    op = "attention"
    sdpa: SdpaFlash | SdpaCudnn

    def serves(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        if refusal := never(case) or _one_query(case, gpu):
            return refusal
        if case.heads == case.kv_heads:
            return Refusal(f"heads and kv_heads are {case.heads}: no heads share their keys")
        return self.sdpa.limits(case, gpu)

    def function(self, case: AttentionCase) -> "Callable[..., torch.Tensor]":
        import torch.nn.functional as F
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = getattr(SDPBackend, self.sdpa.backend)
        grouped = (case.batch, case.kv_heads, case.heads // case.kv_heads, case.head_dim)

        def attend(q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor") -> "torch.Tensor":
            with sdpa_kernel(backend):
                o = F.scaled_dot_product_attention(q.reshape(grouped), k.transpose(1, 2), v.transpose(1, 2))
            return o.reshape(case.batch, 1, case.heads, case.head_dim)

        return attend


for sdpa, library in ((SdpaFlash, "torch's FlashAttention"), (SdpaCudnn, "cuDNN's attention")):
    summary = f"{library}, heads that share keys as its queries"
    register_like(_Packed, __name__, name=f"{sdpa.name}_packed", summary=summary, sdpa=sdpa())


@register
class TorchFlexDecode(Peer):
    """flex_attention, for which Inductor has a flash-decoding kernel."""

    name = "torch_flex_decode"
    op = "attention"
    summary = "torch's flex_attention compiled by Inductor"
    build_seconds = BUILD_SECONDS

    def serves(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        if case.dtype not in HALVES:
            return Refusal(f"dtype is {case.dtype}: this variant takes bf16 and fp16 only")
        return never(case) or _one_query(case, gpu)

    def function(self, case: AttentionCase) -> "Callable[..., torch.Tensor]":
        from torch.nn.attention.flex_attention import flex_attention

        flex = compiled(flex_attention)

        def attend(q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor") -> "torch.Tensor":
            q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
            o: torch.Tensor = flex(q, k, v, enable_gqa=case.heads != case.kv_heads)
            return o.transpose(1, 2)

        return attend
