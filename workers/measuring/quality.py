"""How far a runner's teacher-forced logits are from those of the float32 model."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from kernels.engine import Runner
from workers.documents.stages import Quality
from workers.measuring.texts import Tokens, groups
from workers.statistics import paired_difference

LEAST_TOKENS = 4096
BLOCK = 32
"""Neighbouring tokens are alike: the interval resamples blocks of this many, not single tokens."""


@dataclass
class _Side:
    """One runner's distance from float32, token by token; `broken` tokens had logits that are no numbers."""

    kl: list[torch.Tensor] = field(default_factory=list)
    wrong: list[torch.Tensor] = field(default_factory=list)
    surprise: list[torch.Tensor] = field(default_factory=list)
    broken: int = 0

    def add(self, reference: torch.Tensor, logits: torch.Tensor, ids: torch.Tensor | None) -> None:
        """`reference` log-probabilities and `logits` of one sequence [length, vocab].

        `ids` [length] where logits are of the token that follows.
        """
        own = torch.log_softmax(logits.float(), dim=-1)
        kl = (reference.exp() * (reference - own)).sum(-1).flatten().double().cpu()
        wrong = (reference.argmax(-1) != own.argmax(-1)).flatten().cpu()
        self.broken += int((~kl.isfinite()).sum())
        self.kl.append(kl[kl.isfinite()])
        self.wrong.append((wrong | ~kl.isfinite()).double())
        if ids is not None and len(own) == len(ids):
            following = ids[1:].to(own.device).unsqueeze(-1)
            self.surprise.append(-own[:-1].gather(-1, following).flatten().double().cpu())

    @property
    def mean_kl(self) -> float:
        kl = torch.cat(self.kl)
        return max(0.0, float(kl.mean())) if len(kl) else 0.0

    @property
    def disagreement(self) -> float:
        return float(torch.cat(self.wrong).mean())

    @property
    def perplexity(self) -> float | None:
        found = float(torch.cat(self.surprise).mean().exp()) if self.surprise else math.nan
        return found if math.isfinite(found) else None

    def blocks(self) -> np.ndarray:
        """Disagreement rate of each whole block of tokens (of all tokens when there is none)."""
        wrong = torch.cat(self.wrong).numpy()
        count = len(wrong) // BLOCK
        return wrong[: count * BLOCK].reshape(count, BLOCK).mean(axis=1) if count else wrong


@torch.no_grad()
def compare(
    reference: Runner,
    before: Runner,
    after: Runner,
    tokens: Tokens,
    batch: int,
    goes_on: Callable[[int], bool],
    predicts_next: bool = True,
) -> tuple[int, _Side, _Side]:
    """Runs groups of `batch` sequences through the three runners while `goes_on(tokens so far)`; at least one group.

    `predicts_next` is false for masked language models, whose logits are of the token itself.
    """
    sides = (_Side(), _Side())
    done = 0
    for ids in groups(tokens, batch):
        if done and not goes_on(done):
            break
        expected, *answers = (runner.logits(ids) for runner in (reference, before, after))
        for row, sequence in enumerate(ids):
            known = torch.log_softmax(expected[row].float(), dim=-1)
            for side, answer in zip(sides, answers, strict=True):
                side.add(known, answer[row], sequence if predicts_next else None)
        done += ids.numel()
    return done, *sides


def judge(
    done: int, before: _Side, after: _Side, tokens: Tokens, generated: bool, largest_loss: float | None
) -> Quality:
    """The verdict on quality: acceptable when top-1 disagreement with float32 rises by at most `largest_loss`.

    `largest_loss` is None where the workload allows unverified quality: then it is enough that the logits are finite.
    """
    change = paired_difference(list(before.blocks()), list(after.blocks()))
    called = "numerical fidelity" if generated else "quality"
    allowed = "any rise is allowed, since the workload lets quality be unverified"
    if largest_loss is not None:
        allowed = f"a rise of at most {100 * largest_loss:g} % is allowed"
    most = 1.0 if largest_loss is None else largest_loss
    acceptable = change.value <= most and not after.broken
    open_end = " (the interval does not exclude more)" if acceptable and change.high > most else ""
    few = f" Fewer than the {LEAST_TOKENS:,} tokens that this takes were reached." if done < LEAST_TOKENS else ""
    few += f" For {after.broken:,} tokens the logits after are no numbers." if after.broken else ""
    sentence = (
        f"{called.capitalize()} over {done:,} tokens ({tokens.source}): the most likely token differs from the float32 "
        f"model's in {100 * before.disagreement:.2f} % of cases before and {100 * after.disagreement:.2f} % after, "
        f"mean KL divergence {before.mean_kl:.2g} and {after.mean_kl:.2g} nats; {allowed}, "
        f"so this is {'acceptable' if acceptable else 'not acceptable'}"
        f"{open_end}.{few}"
    )
    return Quality(
        called=called,
        tokens=done,
        kl_before=before.mean_kl,
        kl_after=after.mean_kl,
        top1_before=before.disagreement,
        top1_after=after.disagreement,
        change=change,
        perplexity_before=before.perplexity if tokens.real else None,
        perplexity_after=after.perplexity if tokens.real else None,
        acceptable=acceptable,
        sentence=sentence,
    )
