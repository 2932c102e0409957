"""Judges the ids that a runner served greedily, teacher-forced through a reference runner.

Right logits do not prove right ids: generation may use another code path, a stale buffer or an invented answer. So the
ids of timed requests are judged themselves. The *logit gap* of an id is the distance of its logit from the largest one
at its position in the reference, in standard deviations of that position's logits. It is 0 for the reference's own
choice, up to a few per cent where rounding decides between close logits, and about 4 for a random id among 100,000.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from kernels.engine import Runner

LARGEST_OVER_MEAN = 4.0
"""The largest gap may be this many times the allowed mean gap: the errors of logits are approximately normal."""

OWN_REQUESTS = 16
"""Requests whose ids are held against their own runner's logits."""


@dataclass(frozen=True)
class LogitGaps:
    """Mean and largest logit gap over `tokens` served ids."""

    mean: float
    largest: float
    tokens: int

    def refusal(self, allowed: float) -> str | None:
        """Why the ids are not the model's, in a sentence; None where they are.

        `allowed` is the relative difference of the logits that rounding to the runner's precision explains.
        """
        if self.mean <= allowed and self.largest <= LARGEST_OVER_MEAN * allowed:
            return None
        return (
            f"The ids that it served are not the model's: over {self.tokens:,} ids the reference's logits lie "
            f"{self.mean:.2f} standard deviations below the largest on average and {self.largest:.2f} at most, "
            f"where rounding explains {allowed:g} and {LARGEST_OVER_MEAN * allowed:g}."
        )


def logit_gaps(reference: "Runner", prompt: "torch.Tensor", served: Sequence[Sequence[int]]) -> LogitGaps:
    """The gaps of ids `served` [batch][new] after `prompt` [batch, length] int64, by the logits of `reference`.

    Raises ValueError for an id outside the vocabulary, or if the numbers of rows differ.
    """
    import torch

    ids = torch.tensor(served, dtype=torch.int64, device=prompt.device)
    if ids.dim() != 2 or len(ids) != len(prompt) or not ids.numel():
        raise ValueError(f"served: [batch][new] ids of {len(prompt)} prompts are needed, not {list(ids.shape)}")
    vocabulary = reference.model.config.vocab_size
    if bool((ids < 0).any()) or bool((ids >= vocabulary).any()):
        raise ValueError(f"served: an id lies outside of the vocabulary of {vocabulary:,}")
    logits = reference.logits(torch.cat([prompt, ids], dim=1))[:, prompt.shape[1] - 1 : -1].float()
    chosen = logits.gather(-1, ids.to(logits.device).unsqueeze(-1)).squeeze(-1)
    gaps = (logits.amax(-1) - chosen) / logits.std(-1)
    return LogitGaps(mean=float(gaps.mean()), largest=float(gaps.max()), tokens=ids.numel())


def own_gaps(runner: "Runner", shape: tuple[int, int, int]) -> LogitGaps:
    """The gaps of what a runner serves by its own teacher-forced logits: over OWN_REQUESTS of random ids from a seed.

    `shape` is [batch, prompt, new] of each. A runner of lower precision chooses other ids than the model; by its own
    logits they are the best ones, as far as its passes over prompts and its decode steps agree.
    """
    import torch

    generator, (batch, length, new) = torch.Generator().manual_seed(7), shape
    vocabulary, device = runner.model.config.vocab_size, runner.model.device
    parts = []
    for _ in range(OWN_REQUESTS):
        prompt = torch.randint(vocabulary, (batch, length), generator=generator).to(device)
        parts.append(logit_gaps(runner, prompt, runner.generate(prompt, new).tokens))
    return joined(parts)


def answer_gaps(reference: "Runner", prompt: Sequence[int], served: Sequence[int], device: str) -> LogitGaps:
    """The gaps of one answer: ids `served` after the ids `prompt`. Raises as `logit_gaps`."""
    import torch

    return logit_gaps(reference, torch.tensor([list(prompt)], dtype=torch.int64, device=device), [served])


def joined(parts: Sequence[LogitGaps]) -> LogitGaps:
    """The gaps of all ids together; `parts` has one at least."""
    ids = sum(each.tokens for each in parts)
    return LogitGaps(
        mean=sum(each.mean * each.tokens for each in parts) / ids,
        largest=max(each.largest for each in parts),
        tokens=ids,
    )
