"""Records the timeline of a token of a real launch."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from kernels import runners
from kernels.cuda.nvrtc import Build
from kernels.megakernel.host import trace

if TYPE_CHECKING:
    from kernels.megakernel.runner import MegakernelRunner

WARM_UP = 2
"""Requests of the traced build before the one that is kept."""


def record(
    config: dict[str, Any], path: Path, prompt: int, tokens: int, batch: int, weights: str = "bf16", gpus: int = 1
) -> trace.Recorded:
    """Generates with weights from a seed, saves the middle token's timeline at `path` and returns it; on several GPUs
    shards, rounded to nearest. Raises ValueError if the megakernel cannot run.
    """
    from kernels.model import tensor_parallel  # it imports transformers

    if not torch.cuda.is_available():
        raise ValueError("device: a timeline is recorded on a Hopper GPU, and there is none")
    options: dict[str, Any] = {"weights": weights}
    if gpus > 1:
        model: Any = tensor_parallel.load(None, config, tensor_parallel.devices_of(gpus), generated=True)
        options |= {"rounding": {"method": "nearest"}} if weights != "bf16" else {}
    else:
        model = runners.load(None, config, seed=0, generated=True, dtype="bf16", device="cuda")
    runner: Any = runners.runner("megakernel", model, options)
    recorded = timeline(runner, torch.randint(config["vocab_size"], (batch, prompt), device="cuda"), tokens)
    trace.save(path, recorded)
    return recorded


def timeline(runner: "MegakernelRunner", prompt: Tensor, tokens: int) -> trace.Recorded:
    """The raw trace of the middle one of `tokens` tokens, two at least, after `prompt` [batch, length], on every GPU.

    The runner is prepared where it is not. Its kernel gives way to the traced build meanwhile, which is compiled where
    that was never done. Raises RuntimeError with the compiler's log, or when the kernel gives up.
    """
    runner.generate(prompt, tokens)
    with ExitStack() as stack:
        for rank in runner.ranks:
            stack.enter_context(rank.traced())
        for _ in range(WARM_UP + 1):
            runner.generate(prompt, tokens)
        return [(rank.program, rank.trace.cpu().numpy().view(np.uint64)) for rank in runner.ranks]


def unmade(runner: "MegakernelRunner") -> list[Build]:
    """What `timeline` has to compile first, of a runner that is prepared."""
    return [build for build in dict.fromkeys(rank.traced_build for rank in runner.ranks) if not build.is_made]
