"""Records the timeline of a token of a real launch."""

from pathlib import Path
from typing import Any

import torch

from kernels import engine
from kernels.engine import divided
from kernels.megakernel import trace


def record(
    config: dict[str, Any], path: Path, prompt: int, tokens: int, batch: int, weights: str = "bf16", gpus: int = 1
) -> trace.Recorded:
    """Generates with weights from a seed, saves the middle token's timeline at `path` and returns it.

    On several GPUs each makes its part of the model, and lower precisions are rounded to nearest. Raises ValueError if
    the megakernel cannot run.
    """
    if not torch.cuda.is_available():
        raise ValueError("device: a timeline is recorded on a Hopper GPU, and there is none")
    options: dict[str, Any] = {"weights": weights, "tuning": {"trace": True}}
    if gpus > 1:
        model: Any = divided.load(None, config, divided.devices_of(gpus), generated=True)
        options |= {"rounding": {"method": "nearest"}} if weights != "bf16" else {}
    else:
        model = engine.load(None, config, seed=0, generated=True, dtype="bf16", device="cuda")
    runner: Any = engine.runner("megakernel", model, options)
    ids = torch.randint(config["vocab_size"], (batch, prompt), device="cuda")
    for _ in range(3):
        runner.generate(ids, tokens)
    made: trace.Recorded = runner.timeline()
    trace.save(path, made)
    return made
