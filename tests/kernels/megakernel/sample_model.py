"""The trained model of samples/voice-agent, and how far a runner of it is from float32 on its own text."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kernels import runners
from kernels.runners import Runner
from workers.measuring import quality, texts

DIRECTORY = Path(__file__).parents[3] / "samples" / "voice-agent"
LENGTH = 128


@cache
def sample(dtype: str, device: str) -> Any:
    """The model with its trained weights."""
    config = json.loads((DIRECTORY / "config.json").read_text())
    return runners.load(DIRECTORY, config, dtype=dtype, device=device)


@cache
def known(model: Any) -> Runner:
    """An eager runner that computes the logits of the same ids once."""
    runner, logits_of = runners.runner("eager", model), dict[tuple[int, ...], torch.Tensor]()

    def logits(ids: torch.Tensor) -> torch.Tensor:
        key = tuple(ids.flatten().tolist())
        if key not in logits_of:
            logits_of[key] = computed(ids)
        return logits_of[key]

    computed, runner.logits = runner.logits, logits  # type: ignore[method-assign]
    return runner


def on_its_text(
    own: Runner, device: str, most: int = quality.MIN_TOKENS, before: Runner | None = None
) -> tuple[texts.Tokens, tuple[int, quality.LogitDistance, quality.LogitDistance]]:
    """`most` tokens of its text, and `quality.compare` of `before` (default: torch's bf16 model) and `own` on them."""
    tokens = texts.from_text(DIRECTORY, "", LENGTH, most, sample("fp32", device).config.vocab_size)
    assert tokens is not None
    reference, before = known(sample("fp32", device)), before or known(sample("bf16", device))
    return tokens, quality.compare(reference, before, own, tokens, 1, lambda done: done < most)


def kl_blocks(side: quality.LogitDistance) -> np.ndarray:
    """Mean KL divergence of each block of neighbouring tokens."""
    return torch.cat(side.kl).reshape(-1, quality.BLOCK).mean(dim=1).numpy()
