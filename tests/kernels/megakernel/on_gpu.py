"""Models and runners for the tests that need a Hopper GPU."""

from typing import Any

import torch

from kernels import engine

PROMPT = 20
READ_TOGETHER = 2000
"""Tokens; a score of each with every key, which float32's attention keeps, must find room."""


def models(config: dict[str, Any]) -> tuple[Any, Any]:
    """The bf16 model on the GPU and its float32 twin."""
    made = [engine.load(None, config, seed=0, generated=True, dtype=dtype, device="cuda") for dtype in ("bf16", "fp32")]
    return made[0], made[1]


def runner_of(model: Any, **options: Any) -> Any:
    return engine.runner("megakernel", model, options)


@torch.no_grad()
def last_logits(model: Any, ids: torch.Tensor, count: int) -> torch.Tensor:
    """The model's logits at the last `count` of ids [batch, length], a long prompt read piece by piece; float32."""
    pieces = [*ids[:, :-count].split(READ_TOGETHER, dim=1), ids[:, -count:]]
    cache = None
    for piece in pieces:
        out = model(piece, past_key_values=cache, use_cache=True, logits_to_keep=piece.shape[1])
        cache = out.past_key_values
    return out.logits.float()
