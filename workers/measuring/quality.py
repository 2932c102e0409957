"""How far a runner's teacher-forced logits are from those of the float32 model."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from kernels.measure.fidelity import distances
from kernels.runners import Runner
from workers.documents.measurement import Interval
from workers.documents.quality import Quality
from workers.measuring.allowed_rises import Tolerances
from workers.measuring.quality_next_token import NextToken, scores
from workers.measuring.quality_next_token import sentence as scores_sentence
from workers.measuring.texts import Tokens, groups
from workers.stats.intervals import paired_difference

LEAST_TOKENS = 4096
BLOCK = 32
"""Neighbouring tokens are alike: the interval resamples blocks of this many, not single tokens."""


@dataclass
class _Side:
    """One runner's distance from float32, token by token; `broken` counts tokens whose logits are not finite."""

    kl: list[torch.Tensor] = field(default_factory=list)
    wrong: list[torch.Tensor] = field(default_factory=list)
    next_token: NextToken = field(default_factory=NextToken)
    broken: int = 0

    def add(self, reference: torch.Tensor, logits: torch.Tensor, ids: torch.Tensor | None) -> None:
        """`reference` log-probabilities and `logits` of one sequence [length, vocab].

        `ids` [length] where logits are of the token that follows.
        """
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        kl, wrong = (distance.flatten().cpu() for distance in distances(reference, log_probs))
        self.broken += int((~kl.isfinite()).sum())
        self.kl.append(torch.where(kl.isfinite(), kl, 0.0))
        self.wrong.append((wrong | ~kl.isfinite()).double())
        if ids is not None:
            self.next_token.add(log_probs, ids)

    @property
    def mean_kl(self) -> float:
        kl = torch.cat(self.kl)
        return max(0.0, float(kl.mean())) if len(kl) else 0.0

    @property
    def disagreement(self) -> float:
        return float(torch.cat(self.wrong).mean())

    def blocks(self) -> np.ndarray:
        """Disagreement rate of each whole block of tokens (of all tokens when there is none)."""
        return block_means(torch.cat(self.wrong).numpy())

    def kl_blocks(self) -> np.ndarray:
        """Mean KL divergence of each whole block of tokens, in nats; 0 for tokens without finite logits."""
        return block_means(torch.cat(self.kl).numpy())


def block_means(values: np.ndarray) -> np.ndarray:
    """The mean of each whole block of tokens; of fewer tokens than a block has, their values [tokens]."""
    count = len(values) // BLOCK
    return values[: count * BLOCK].reshape(count, BLOCK).mean(axis=1) if count else values


def is_acceptable(change: Interval, kl_change: Interval, allowed: Tolerances | None) -> bool:
    """The one criterion of compose and verify: both rises, at the upper end of their 95 % intervals, are allowed.

    `change` is of the top-1 disagreement rate, `kl_change` of the mean KL divergence in nats. None allows any rise.
    """
    if allowed is None:
        return True
    return change.high <= allowed.rate and kl_change.high <= allowed.nats


def sides(reference: torch.Tensor, before: torch.Tensor, after: torch.Tensor) -> tuple[_Side, _Side]:
    """How far logits `before` and `after` are from those of `reference`, all [sequences, length, vocab]."""
    both = (_Side(), _Side())
    for known, *own in zip(reference, before, after, strict=True):
        for side, logits in zip(both, own, strict=True):
            side.add(torch.log_softmax(known.float(), dim=-1), logits, None)
    return both


def rises(before: _Side, after: _Side) -> tuple[Interval, Interval]:
    """The rise of the disagreement rate, and of the mean KL divergence in nats."""
    return (
        paired_difference(list(before.blocks()), list(after.blocks())),
        paired_difference(list(before.kl_blocks()), list(after.kl_blocks())),
    )


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
    both = (_Side(), _Side())
    done = 0
    for ids in groups(tokens, batch):
        if done and not goes_on(done):
            break
        logits = {runner: runner.logits(ids) for runner in dict.fromkeys((reference, before, after))}
        expected, *answers = (logits[runner] for runner in (reference, before, after))
        for row, sequence in enumerate(ids):
            reference_log_probs = torch.log_softmax(expected[row].float(), dim=-1)
            for side, answer in zip(both, answers, strict=True):
                side.add(reference_log_probs, answer[row], sequence if predicts_next else None)
        done += ids.numel()
    return done, *both


def judge(
    done: int, before: _Side, after: _Side, tokens: Tokens, generated: bool, allowed: Tolerances | None
) -> Quality:
    """The verdict on quality by `is_acceptable`, on the rises of after over before.

    `allowed` is None where the workload allows unverified quality: then it is enough that the logits are finite.
    """
    change, kl_change = rises(before, after)
    called = "numerical fidelity" if generated else "quality"
    text = scores(before.next_token, after.next_token, tokens)
    may = "any rise is allowed, since the workload lets quality be unverified"
    if allowed is not None:
        floor, allowed = allowed, allowed.beside(before.disagreement, before.mean_kl)
        above = allowed.rate > floor.rate and allowed.nats > floor.nats
        own = f", {100 * allowed.share:g} % of the distance before" if above else ""
        points = f"{100 * allowed.rate:.3g} {'point' if allowed.rate == 0.01 else 'points'}"
        may = f"rises of at most {points} and {allowed.nats_words} are allowed{own}"
    acceptable = is_acceptable(change, kl_change, allowed) and not after.broken
    caveat, result = "", "acceptable" if acceptable else "not acceptable"
    if done < LEAST_TOKENS:
        result += " so far" if acceptable else ""
        caveat = f" Fewer than the {LEAST_TOKENS:,} tokens that this takes were reached."
    caveat += f" For {after.broken:,} tokens the logits after are no numbers." if after.broken else ""
    sentence = (
        f"{called.capitalize()} over {done:,} tokens ({tokens.source}): the most likely token differs from the float32 "
        f"model's in {100 * before.disagreement:.2f} % of cases before and {100 * after.disagreement:.2f} % after, "
        f"mean KL divergence {before.mean_kl:.2g} and {after.mean_kl:.2g} nats. By their 95 % intervals, the share of "
        f"differing tokens {upper_end(f'{100 * change.high:+.2f}', 'points')} and the divergence "
        f"{upper_end(f'{kl_change.high:+.2g}', 'nats')}; {may}, so this is {result}.{caveat}"
        f"{scores_sentence(text)}"
    )
    return Quality(
        called=called,
        tokens=done,
        kl_before=before.mean_kl,
        kl_after=after.mean_kl,
        top1_before=before.disagreement,
        top1_after=after.disagreement,
        change=change,
        kl_change=kl_change,
        source=tokens.source,
        text=text,
        perplexity_before=text.perplexity_before.value if text else None,
        perplexity_after=text.perplexity_after.value if text else None,
        acceptable=acceptable,
        sentence=sentence,
    )


def upper_end(change: str, unit: str) -> str:
    """The upper end of a change's interval, a number with its sign: `rises by at most 0.40 points`."""
    if not float(change):
        return "does not rise"
    verb, end = ("falls", "at least") if change.startswith("-") else ("rises", "at most")
    return f"{verb} by {end} {change.lstrip('+-')} {unit}"
