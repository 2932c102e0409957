"""Whether the logits of a model can be judged at all."""

from typing import Any

import torch

from workers.harness.context import StageError

TOKENS = 8
"""Random ids that are looked at."""


def check_logits(model: Any) -> None:
    """One pass of a model that generates text. Raises StageError where its logits are no numbers, or all alike.

    Neither its answers nor a plan's fidelity could be judged then, after minutes of measuring.
    """
    generator = torch.Generator().manual_seed(11)
    ids = torch.randint(model.config.vocab_size, (1, TOKENS), generator=generator).to(model.device)
    with torch.inference_mode():
        logits = model(input_ids=ids).logits.float()
    if not bool(torch.isfinite(logits).all()):
        raise StageError(
            "The model's logits are not finite numbers, so nothing that it answers can be judged: its weights hold "
            "NaN or infinite values, or are too large for its precision.",
            refused=True,
            field="model",
        )
    if bool((logits.amax(-1) == logits.amin(-1)).any()):
        raise StageError(
            "The model gives every token the same logit, so nothing that it answers can be judged: its weights are "
            "zero, or hardly differ.",
            refused=True,
            field="model",
        )
