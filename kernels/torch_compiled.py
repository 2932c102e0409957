"""Peers that Inductor compiles. Imports without torch."""

import shutil
from collections.abc import Callable
from typing import Any, ClassVar

from kernels.hardware import Gpu
from kernels.registry import Peer, Refusal, Variant, register_like

BUILD_SECONDS = 20.0
"""The longest that Inductor takes for one case of one op."""
RECOMPILE_LIMIT = 256
"""The most shapes for which one function is compiled; beyond torch's default of 8 it runs uncompiled."""


def no_compiler(gpu: Gpu) -> Refusal | None:
    if gpu.gpu_class == "cpu" and shutil.which("g++") is None and shutil.which("clang++") is None:
        return Refusal("device is CPU: Inductor needs a C++ compiler and there is none on this machine")
    return None


def compiled(function: Callable[..., Any], mode: str | None = None) -> Callable[..., Any]:
    """torch.compile of the function, once for each shape. Compiles at the first call."""
    import torch

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, RECOMPILE_LIMIT)
    return torch.compile(function, mode=mode, dynamic=False)


class Compiled(Peer):
    """A variant of torch, `eager`, compiled by Inductor."""

    build_seconds = BUILD_SECONDS
    eager: ClassVar[type[Variant]]

    def serves(self, case: Any, gpu: Gpu) -> Refusal | None:
        return no_compiler(gpu) or self.eager().serves(case, gpu)

    def function(self, case: Any) -> Callable[..., Any]:
        return compiled(self.eager().build(case, {}))


def register_compiled(eager: type[Variant], summary: str) -> None:
    """Offers the eager variant compiled by Inductor, as its name with `_compiled` behind. `summary` says what of."""
    name, described = f"{eager.name}_compiled", f"{summary} compiled by Inductor"
    register_like(Compiled, eager.__module__, name=name, op=eager.op, summary=described, eager=eager)
