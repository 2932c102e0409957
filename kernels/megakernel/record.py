"""Records the timeline of a token of a real launch."""

from pathlib import Path
from typing import Any

import torch

from kernels import engine
from kernels.megakernel import trace
from kernels.megakernel.program import Program


def record(
    config: dict[str, Any], path: Path, prompt: int, tokens: int, batch: int, weights: str = "bf16"
) -> tuple[Program, trace.Trace]:
    """Generates with weights from a seed, saves the middle token's timeline at `path` and returns it.

    Raises ValueError if the megakernel cannot run.
    """
    if not torch.cuda.is_available():
        raise ValueError("device: a timeline is recorded on a Hopper GPU, and there is none")
    model = engine.load(None, config, seed=0, generated=True, dtype="bf16", device="cuda")
    runner: Any = engine.runner("megakernel", model, {"weights": weights, "tuning": {"trace": True}})
    ids = torch.randint(config["vocab_size"], (batch, prompt), device="cuda")
    for _ in range(3):
        runner.generate(ids, tokens)
    made = runner.timeline()
    trace.save(path, runner.program, made)
    return runner.program, made
