"""torch's attention as peers: the four backends of scaled_dot_product_attention, and packed sequences."""

import inspect
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

from kernels.hardware import Gpu
from kernels.ops import AttentionCase
from kernels.registry import Peer, Refusal, register

if TYPE_CHECKING:
    import torch


HALVES = ("bf16", "fp16")
MAX_SCORES = 8
"""GiB of float32 scores that `sdpa_math` may hold: it has several of their size."""


class _Sdpa(Peer):
    """One backend. k and v have the layout of the case's docstring; the call transposes heads to the front."""

    op = "attention"
    backend: ClassVar[str]
    repeats_heads: ClassVar[bool] = False

    def serves(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        return never(case) or self.limits(case, gpu)

    def limits(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        """The restrictions of this backend."""
        return None

    def function(self, case: AttentionCase) -> "Callable[..., torch.Tensor]":
        import torch.nn.functional as F
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = getattr(SDPBackend, self.backend)
        grouped = case.heads != case.kv_heads
        repeats = case.heads // case.kv_heads if grouped and self.repeats_heads else 1
        square = case.causal and case.q_len == case.kv_len and not needs_mask(case)

        def attend(q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor") -> "torch.Tensor":
            if repeats > 1:
                k, v = k.repeat_interleave(repeats, dim=2), v.repeat_interleave(repeats, dim=2)
            mask = _mask(case, q.device) if needs_mask(case) else None
            with sdpa_kernel(backend):
                o = F.scaled_dot_product_attention(
                    q.transpose(1, 2),
                    k.transpose(1, 2),
                    v.transpose(1, 2),
                    attn_mask=mask,
                    is_causal=square,
                    enable_gqa=grouped and repeats == 1,
                )
            return o.transpose(1, 2)

        return attend


@register
class SdpaMath(_Sdpa):
    """Matrix products and a softmax, scores in memory."""

    name = "sdpa_math"
    summary = "torch's attention written as products and a softmax"
    backend = "MATH"

    def limits(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        size = 4 * case.batch * case.heads * case.q_len * case.kv_len / 2**30
        if size > MAX_SCORES:
            return Refusal(
                f"q_len is {case.q_len} and kv_len {case.kv_len}: the scores alone would take {size:.0f} GiB"
            )
        return None


@register
class SdpaFlash(_Sdpa):
    """FlashAttention-2 on a GPU, torch's own flash kernel on a CPU."""

    name = "sdpa_flash"
    summary = "torch's FlashAttention"
    backend = "FLASH_ATTENTION"

    def limits(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        if gpu.gpu_class == "cpu":
            return None
        return half_only(case, gpu) or _no_mask(case) or _widest(case, 256)


@register
class SdpaCudnn(_Sdpa):
    """cuDNN's fused attention."""

    name = "sdpa_cudnn"
    summary = "cuDNN's attention"
    backend = "CUDNN_ATTENTION"

    def limits(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        if gpu.gpu_class == "cpu":
            return Refusal("device is CPU: cuDNN runs on NVIDIA GPUs only")
        if case.head_dim % 8:
            return Refusal(f"head_dim is {case.head_dim}: cuDNN takes multiples of 8")
        if case.kv_len == 1:
            return Refusal("kv_len is 1: cuDNN takes two keys or more")
        return half_only(case, gpu) or _no_mask(case) or _widest(case, 256 if gpu.sm >= 90 else 128)


@register
class SdpaMemEfficient(_Sdpa):
    """The memory-efficient kernel from xFormers; heads of k and v are repeated, since it knows no groups."""

    name = "sdpa_mem_efficient"
    summary = "torch's memory-efficient attention"
    backend = "EFFICIENT_ATTENTION"
    repeats_heads = True

    def limits(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        if gpu.gpu_class == "cpu":
            return Refusal("device is CPU: torch has its memory-efficient attention on GPUs only")
        return None


def needs_mask(case: AttentionCase) -> bool:
    """Whether the case's mask differs from torch's is_causal, which aligns the first query with the first key."""
    unequal = case.causal and case.q_len > 1 and case.q_len != case.kv_len
    return case.window is not None or case.lengths is not None or unequal


def _mask(case: AttentionCase, device: "torch.device") -> "torch.Tensor":
    from kernels.ops.attention import visible

    return visible(case, slice(0, case.q_len), device)


def never(case: AttentionCase) -> Refusal | None:
    """The restrictions of torch's attention in all of its forms."""
    if case.softcap is not None:
        return Refusal(f"softcap is {case.softcap:g}: torch's attention has no soft cap")
    if case.sinks:
        return Refusal("sinks are given: torch's attention has none")
    if case.paged:
        return Refusal("keys and values are paged: torch's attention reads contiguous ones only")
    if case.kv_lengths is not None:
        return Refusal(f"kv_lengths are {_few(case.kv_lengths)}: torch's attention takes no lengths of a cache")
    if case.kv_dtype != case.dtype:
        return Refusal(f"kv_dtype is {case.kv_dtype} and dtype {case.dtype}: torch's attention wants them equal")
    if case.heads % case.kv_heads:
        return Refusal(f"heads is {case.heads}, not a multiple of kv_heads {case.kv_heads}")
    if not (case.batch and case.q_len and case.kv_len):
        return Refusal("batch or a length is 0: there is nothing to attend to")
    if case.causal and case.q_len > case.kv_len:
        return Refusal(f"q_len is {case.q_len} and kv_len {case.kv_len}: the first queries would see no key")
    return None


def _few(lengths: tuple[int, ...]) -> str:
    return ", ".join(map(str, lengths[:4])) + (", …" if len(lengths) > 4 else "")


def half_only(case: AttentionCase, gpu: Gpu) -> Refusal | None:
    """The refusal of a dtype or GPU that FlashAttention does not support."""
    if case.dtype not in HALVES:
        return Refusal(f"dtype is {case.dtype}: this backend takes bf16 and fp16 only")
    if gpu.sm < 80:
        return Refusal(f"device is {gpu.name}: this backend needs compute capability 8.0 or later")
    return None


def _no_mask(case: AttentionCase) -> Refusal | None:
    if case.window is not None:
        return Refusal(f"window is {case.window}: this backend takes no mask")
    if case.lengths is not None:
        return Refusal(f"lengths are {_few(case.lengths)}: this backend takes no mask")
    if needs_mask(case):
        return Refusal(
            f"q_len is {case.q_len} and kv_len {case.kv_len}: causal over unequal lengths needs a mask, "
            "which this backend does not take"
        )
    return None


def _widest(case: AttentionCase, limit: int) -> Refusal | None:
    if case.head_dim > limit:
        return Refusal(f"head_dim is {case.head_dim}: this backend takes at most {limit}")
    return None


@register
class TorchVarlen(Peer):
    """torch's FlashAttention over packed sequences; repeats heads of k and v, since torch 2.11 has no groups here."""

    name = "torch_varlen"
    op = "attention"
    summary = "torch's FlashAttention over packed sequences"

    def serves(self, case: AttentionCase, gpu: Gpu) -> Refusal | None:
        if case.lengths is None:
            return Refusal("no lengths are given: this variant reads packed sequences only")
        if case.window is not None:
            return Refusal(f"window is {case.window}: torch's packed attention has none in every version")
        if case.head_dim > 256 or case.head_dim % 8:
            return Refusal(f"head_dim is {case.head_dim}: FlashAttention takes multiples of 8 up to 256")
        return never(case) or half_only(case, gpu)

    def function(self, case: AttentionCase) -> "Callable[..., torch.Tensor]":
        import torch
        from torch.nn.attention.varlen import varlen_attn

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
