"""What `bench decode` holds logits against."""

from dataclasses import dataclass

import torch

from kernels.engine import Runner

COMPARED_TOKENS = 256
"""So much of each row's prompt is compared."""
PROBED = 8
"""Ids behind the prompt that are compared, of a runner that reads prompts by a pass of its own."""


@dataclass(frozen=True)
class Known:
    """What the eager model says: `logits` of the prompt's beginning, `ids`, and `behind` it the PROBED further ids."""

    ids: torch.Tensor
    logits: torch.Tensor
    probe: torch.Tensor
    behind: torch.Tensor

    @classmethod
    def of(cls, eager: Runner, prompt: torch.Tensor, generator: torch.Generator) -> "Known":
        more = torch.randint(eager.model.config.vocab_size, (len(prompt), PROBED), generator=generator)
        probe, ids = torch.cat([prompt, more.to(prompt.device)], dim=1), prompt[:, :COMPARED_TOKENS]
        return cls(ids, eager.logits(ids).float(), probe, eager.logits(probe)[:, prompt.shape[1] :].float())
