"""Which kernels a call runs, and which library they belong to."""

import re
from collections.abc import Callable
from typing import Any

import torch

ON_CPU = "oneDNN or MKL"
LIBRARIES: dict[str, str] = {
    "cuDNN": r"cudnn",
    "cuBLAS": r"cublas|nvjet|sm\d+_xmma|gemv(?:2T|NSP|x)|gemm(?:SN|k1)|ampere_.*gemm|(?:volta|turing|maxwell)_.*gemm"
    r"|cutlass_\d+_(?:wmma_)?tensorop|splitKreduce|^void gemm",
    "torch's FlashAttention": r"pytorch_flash|flash_fwd|_flash_attention",
    "torch's memory-efficient attention": r"fmha_cutlass|_efficient_attention",
    ON_CPU: r"mkldnn|onednn|aten::(?:addmm|mm|bmm|baddbmm|linear|_int_mm)\b",
}
"""Libraries by a pattern of their kernels' names."""

TORCH = r"\bat::(?:native|cuda)\b|\bat_cuda_detail\b|\bc10::|\bcub::"
"""torch's own kernels, and CUB's, which torch launches. A whole model may use them between its kernels."""

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


def libraries(kernel_names: list[str]) -> list[str]:
    """The libraries whose kernels are among the names."""
    return [library for library, pattern in LIBRARIES.items() if any(re.search(pattern, name) for name in kernel_names)]


def borrowed(kernel_names: list[str]) -> str:
    """A sentence when a call that is to run GPU kernels of its own ran a library's or torch's; "" when it did not.

    The operators that are seen on a CPU are torch's in every variant, and tell nothing.
    """
    owners = {library: pattern for library, pattern in LIBRARIES.items() if library != ON_CPU} | {"torch": TORCH}
    for name in kernel_names:
        for owner, pattern in owners.items():
            if re.search(pattern, name):
                return f"It claims kernels of its own, but runs one of {owner}: {name[:80]}."
    return ""


def is_own(kernel_names: list[str]) -> bool:
    """Whether the names are known and none belongs to cuBLAS, cuDNN or another library."""
    return bool(kernel_names) and not libraries(kernel_names)
