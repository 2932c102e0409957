"""Variants that end the process of the stage that tries them. Each is right, so none is left out for another reason."""

import os
import shutil
import time
from typing import Any, NoReturn

import torch

from kernels import registry
from kernels.runners import by_name
from kernels.runners.eager import EagerRunner
from kernels.runners.whole_model import WholeModel
from tests.kernels.planted import Planted


def lose_the_gpu() -> NoReturn:
    """Fails as a kernel does that writes to a wrong address: this call, and each later one that asks the GPU."""

    def lost(device: Any = None) -> NoReturn:
        raise torch.AcceleratorError("CUDA error: unspecified launch failure\nCompile with TORCH_USE_CUDA_DSA")

    torch.cuda.is_initialized, torch.cuda.synchronize = lambda: True, lost
    lost()


class Aborts(Planted):
    """Ends its process when it is proven with these params."""

    name = "planted_aborts"

    def space(self, case: Any) -> list[dict[str, Any]]:
        return [{"split": 1}, {"split": 2}]

    def build(self, case: Any, params: dict[str, Any]) -> Any:
        if params["split"] == 2 and case.m == 1:
            os.abort()
        return self.call


class LosesTheGpu(Planted):
    """Passes the gate, and loses the GPU when it is timed."""

    name = "planted_loses_the_gpu"
    calls = 0

    def call(self, x: Any, w: Any, bias: Any = None, residual: Any = None) -> Any:
        self.calls += 1
        if self.calls > 15:
            lose_the_gpu()
        return super().call(x, w, bias)


class Hangs(Planted):
    """Does not come back where its process is the one that may try it."""

    name = "planted_hangs"

    def build(self, case: Any, params: dict[str, Any]) -> Any:
        time.sleep(600)


class AbortsInAModel(Planted):
    """Is right and quick as long as it is called alone."""

    name = "planted_aborts_in_a_model"

    def build(self, case: Any, params: dict[str, Any]) -> Any:
        os.abort()


class Crashing(WholeModel):
    name, runner_name = "megakernel", "megakernel"
    summary = "planted by a test"


class HangingRunner(EagerRunner):
    def __init__(self, model: Any, options: Any = None, ops: Any = None) -> None:
        super().__init__(model, options)

    def prepare(self, batch: int, prompt: int, tokens: int) -> None:
        time.sleep(600)


class HangingIn16Bits(EagerRunner):
    """Is slow in float32, hangs at the first request in float16, and at the fifth in bfloat16."""

    answered = 0

    def __init__(self, model: Any, options: Any = None, ops: Any = None) -> None:
        super().__init__(model, options)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        hangs_at = {torch.float16: 0, torch.bfloat16: 4}.get(self.model.dtype)
        time.sleep(600 if self.answered == hangs_at else 0.1)
        self.answered += 1
        return super().generate(*args, **kwargs)


class HangingModel(WholeModel):
    name = "planted_hanging_model"
    summary = "planted by a test"

    def build(self, case: Any, params: dict[str, Any]) -> Any:
        return HangingRunner


class LosingRunner(EagerRunner):
    def __init__(self, model: Any, options: Any = None, ops: Any = None) -> None:
        super().__init__(model, options)

    def prepare(self, batch: int, prompt: int, tokens: int) -> None:
        lose_the_gpu()


def plant(*variants: type[Any]) -> None:
    """Registers the variants, and keeps Inductor out, which takes too long."""
    known = registry.variants()
    assert known
    for variant in variants:
        registry._variants[variant.name] = variant()
    by_name.RUNNERS["megakernel"] = f"{__name__}.LosingRunner"
    shutil.which = lambda *args, **kwargs: None  # type: ignore[assignment]
