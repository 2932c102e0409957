"""Which kernels a call runs, and whether they are the variant's own.

A variant declares the names of its kernels; every other kernel is somebody else's, whether its owner is known or not.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernels.registry import Variant

LIBRARIES: dict[str, str] = {
    "cuDNN": r"cudnn",
    "FlashAttention": r"pytorch_flash|flash_fwd|_flash_attention|\bflash::",
    "FlashInfer": r"flashinfer",
    "Marlin": r"\bmarlin",
    "torch's memory-efficient attention": r"fmha_cutlass|_efficient_attention",
    "cuBLAS": r"cublas|nvjet|sm\d+_xmma|gemv(?:2T|NSP|x)|gemm(?:SN|k1)|ampere_.*gemm|(?:volta|turing|maxwell)_.*gemm"
    r"|cutlass_\d+_|splitKreduce|^void gemm",
    "CUTLASS": r"cutlass",
    "Inductor": r"^triton_(?:poi|red|per|tem|for|mm|bmm|flex)",
    "torch": r"\bat::(?:native|cuda)\b|\bat_cuda_detail\b|\bc10::|\bcub::",
}
"""Whose a kernel is by the first pattern that fits its name. What is not here is not the variant's own."""

_CPU_NOISE = re.compile(r"aten::(?:as_strided|view|t|transpose|reshape|empty|_unsafe_view|expand|select|slice|alias)\b")


@torch.no_grad()
def kernels_seen(call: Callable[[], Any], device: torch.device | str) -> list[str]:
    """Names of the GPU kernels that one call launches (on a CPU: of torch's operators), in order of first launch."""
    cuda = torch.device(device).type == "cuda"
    activity = torch.profiler.ProfilerActivity.CUDA if cuda else torch.profiler.ProfilerActivity.CPU
    call()
    if cuda:
        torch.cuda.synchronize()
    with torch.profiler.profile(activities=[activity]) as profile:
        call()
        if cuda:
            torch.cuda.synchronize()
    wanted = torch.autograd.DeviceType.CUDA if cuda else torch.autograd.DeviceType.CPU
    events = [event for event in profile.events() if event.device_type == wanted]
    names = [event.name for event in events if not _is_noise(event.name)]
    return list(dict.fromkeys(names))


def _is_noise(name: str) -> bool:
    return name.startswith(("Memset", "Memcpy", "[", "Profiler")) or bool(_CPU_NOISE.match(name))


def foreign(kernel_names: Sequence[str], variant: Variant) -> str:
    """The first GPU kernel neither the variant's own nor a helper; "" without. A CPU's operators tell nothing."""
    own, helpers = variant.own_kernels(), [re.compile(helper) for helper in variant.helpers]
    for name in _on_gpu(kernel_names):
        if name not in own and not any(helper.search(name) for helper in helpers):
            return name
    return ""


def borrowed_kernels_sentence(kernel_names: Sequence[str], variant: Variant) -> str:
    """A sentence when a call of a variant that is no peer ran a kernel of others; "" when it did not."""
    name = foreign(kernel_names, variant)
    owner = next((owner for owner, pattern in LIBRARIES.items() if re.search(pattern, name)), "")
    what = f"one of {owner}" if owner else "one that it does not declare"
    return f"It claims kernels of its own, but runs {what}: {name[:80]}." if name else ""


def is_own(kernel_names: Sequence[str], variant: Variant) -> bool | None:
    """Whether every GPU kernel is the variant's own or a helper; None when no GPU kernel is known."""
    return not foreign(kernel_names, variant) if _on_gpu(kernel_names) else None


def _on_gpu(kernel_names: Sequence[str]) -> list[str]:
    """The names; none where they are operators, which is what is seen on a CPU."""
    return [] if any(name.startswith("aten::") for name in kernel_names) else list(kernel_names)
