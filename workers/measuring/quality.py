"""How far a runner's teacher-forced logits are from the float32 model's, and how well it predicts a text."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from kernels.measure.fidelity import distances
from workers.documents.measurement import Interval
from workers.documents.quality import Quality, TextScores
from workers.measuring.allowed_rises import Tolerances
from workers.measuring.recorded_answers import GivesLogits
from workers.measuring.texts import Tokens, groups
from workers.stats.intervals import bootstrap, paired_difference


@dataclass
class NextToken:
    """One runner's predictions, sequence by sequence: the share that was right, and the mean surprise in nats."""

    right: list[float] = field(default_factory=list)
    surprise: list[float] = field(default_factory=list)

    def add(self, log_probabilities: torch.Tensor, ids: torch.Tensor) -> None:
        """`log_probabilities` [length, vocab] of one sequence `ids` [length]; the first token is not predicted."""
        following = ids[1:].to(log_probabilities.device)
        if len(log_probabilities) != len(ids) or not len(following):
            return
        predicted = log_probabilities[:-1]
        self.right.append(float((predicted.argmax(-1) == following).double().mean()))
        self.surprise.append(float(-predicted.gather(-1, following.unsqueeze(-1)).double().mean()))


def scores(before: NextToken, after: NextToken, tokens: Tokens) -> TextScores | None:
    """The scores of both runners on the sequences of a written text; None without any, or where a value is not finite.

    The 95 % intervals resample whole sequences, since neighbouring tokens depend on each other.
    """
    count = min(tokens.written, len(before.right), len(after.right))
    sides = [np.column_stack([side.right[:count], side.surprise[:count]]) for side in (before, after)]
    if not count or not np.isfinite(sides).all():
        return None
    accuracy = [bootstrap(lambda rows: rows[..., 0].mean(axis=-1), side) for side in sides]
    perplexity = [bootstrap(lambda rows: np.exp(rows[..., 1].mean(axis=-1)), side) for side in sides]
    surprises = np.column_stack([side[:, 1] for side in sides])
    length = tokens.ids.shape[1]
    return TextScores(
        source=tokens.source.partition(" and ")[0],
        sequences=count,
        length=length,
        predictions=count * (length - 1),
        accuracy_before=accuracy[0],
        accuracy_after=accuracy[1],
        accuracy_change=paired_difference(before.right[:count], after.right[:count]),
        perplexity_before=perplexity[0],
        perplexity_after=perplexity[1],
        perplexity_ratio=bootstrap(lambda rows: np.exp((rows[..., 1] - rows[..., 0]).mean(axis=-1)), surprises),
    )


def scores_sentence(scores: TextScores | None) -> str:
    """The scores in a sentence that follows others; "" without any."""
    if scores is None:
        return ""
    change, ratio = scores.accuracy_change, scores.perplexity_ratio
    caveat = " One sequence has no interval." if scores.sequences == 1 else ""
    return (
        f" On {scores.source} ({scores.sequences:,} sequences of {scores.length:,} tokens) "
        f"{100 * scores.accuracy_before.value:.2f} % of the next tokens are predicted right before and "
        f"{100 * scores.accuracy_after.value:.2f} % after (change {100 * change.low:+.2f} to {100 * change.high:+.2f} "
        f"points), perplexity {_perplexity(scores.perplexity_before)} and {_perplexity(scores.perplexity_after)} "
        f"({ratio.low:.4f} to {ratio.high:.4f} times).{caveat}"
    )


def _perplexity(perplexity: Interval) -> str:
    value = perplexity.value
    return f"{value:,.4g}" if math.isfinite(value) and value < 1e4 else f"{value:.3g}"


MIN_TOKENS = 4096
BLOCK = 32
"""Neighbouring tokens are alike: the interval resamples blocks of this many, not single tokens."""


@dataclass
class LogitDistance:
    """One runner's distance from float32, token by token; `non_finite` counts tokens whose logits are not finite."""

    kl: list[torch.Tensor] = field(default_factory=list)
    disagreed: list[torch.Tensor] = field(default_factory=list)
    next_token: NextToken = field(default_factory=NextToken)
    non_finite: int = 0

    def add(self, reference: torch.Tensor, logits: torch.Tensor, ids: torch.Tensor | None) -> None:
        """`reference` log-probabilities and `logits` [length, vocab]; `ids` [length] where they predict the next."""
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        kl, disagreed = (distance.flatten().cpu() for distance in distances(reference, log_probs))
        self.non_finite += int((~kl.isfinite()).sum())
        self.kl.append(torch.where(kl.isfinite(), kl, 0.0))
        self.disagreed.append((disagreed | ~kl.isfinite()).double())
        if ids is not None:
            self.next_token.add(log_probs, ids)

    @property
    def mean_kl(self) -> float:
        kl = torch.cat(self.kl)
        return max(0.0, float(kl.mean())) if len(kl) else 0.0

    @property
    def disagreement(self) -> float:
        return float(torch.cat(self.disagreed).mean())

    def blocks(self) -> np.ndarray:
        """Disagreement rate of each whole block of tokens (of all tokens when there is none)."""
        return block_means(torch.cat(self.disagreed).numpy())

    def kl_blocks(self) -> np.ndarray:
        """Mean KL divergence of each whole block of tokens, in nats; 0 for tokens without finite logits."""
        return block_means(torch.cat(self.kl).numpy())


def block_means(values: np.ndarray) -> np.ndarray:
    """The mean of each whole block of tokens; of fewer tokens than a block has, their values [tokens]."""
    count = len(values) // BLOCK
    return values[: count * BLOCK].reshape(count, BLOCK).mean(axis=1) if count else values


def is_acceptable(change: Interval, kl_change: Interval, allowed: Tolerances | None) -> bool:
    """For models that answer with tokens: whether both rises, at the upper end of their 95 % intervals, are allowed.

    `change` is of the top-1 disagreement rate, `kl_change` of the mean KL divergence in nats. None allows any rise.
    """
    if allowed is None:
        return True
    return change.high <= allowed.rate and kl_change.high <= allowed.nats


def sides(reference: torch.Tensor, before: torch.Tensor, after: torch.Tensor) -> tuple[LogitDistance, LogitDistance]:
    """How far logits `before` and `after` are from those of `reference`, all [sequences, length, vocab]."""
    both = (LogitDistance(), LogitDistance())
    for known, *own in zip(reference, before, after, strict=True):
        for side, logits in zip(both, own, strict=True):
            side.add(torch.log_softmax(known.float(), dim=-1), logits, None)
    return both


def rises(before: LogitDistance, after: LogitDistance) -> tuple[Interval, Interval]:
    """The rise of the disagreement rate, and of the mean KL divergence in nats."""
    return (
        paired_difference(list(before.blocks()), list(after.blocks())),
        paired_difference(list(before.kl_blocks()), list(after.kl_blocks())),
    )


@torch.no_grad()
def compare(
    reference: GivesLogits,
    before: GivesLogits,
    after: GivesLogits,
    tokens: Tokens,
    batch: int,
    keep_going: Callable[[int], bool],
    predicts_next: bool = True,
) -> tuple[int, LogitDistance, LogitDistance]:
    """Runs groups of `batch` sequences through the three runners while `keep_going(tokens so far)`; at least one group.

    `predicts_next` is false for masked language models, whose logits are of the token itself.
    """
    both = (LogitDistance(), LogitDistance())
    done = 0
    for ids in groups(tokens, batch):
        if done and not keep_going(done):
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
    done: int, before: LogitDistance, after: LogitDistance, tokens: Tokens, generated: bool, allowed: Tolerances | None
) -> Quality:
    """The verdict on quality by `is_acceptable`, on the rises of after over before.

    `allowed` is None where the workload allows unverified quality: then it is enough that the logits are finite.
    """
    change, kl_change = rises(before, after)
    called, text, may = quality_name(generated), scores(before.next_token, after.next_token, tokens), ""
    if allowed is not None:
        floor, allowed = allowed, allowed.beside(before.disagreement, before.mean_kl)
        above = allowed.rate > floor.rate and allowed.nats > floor.nats
        own = f", {100 * allowed.share:g} % of the distance before" if above else ""
        points = f"{100 * allowed.rate:.3g} {'point' if allowed.rate == 0.01 else 'points'}"
        may = f"rises of at most {points} and {allowed.nats_words} are allowed{own}"
    acceptable = is_acceptable(change, kl_change, allowed) and not after.non_finite
    few = done < MIN_TOKENS
    caveat = f" Fewer than the {MIN_TOKENS:,} tokens that this takes were reached." if few else ""
    caveat += f" For {after.non_finite:,} tokens the logits after are no numbers." if after.non_finite else ""
    sentence = (
        f"{called.capitalize()} over {done:,} tokens ({tokens.source}): the most likely token differs from the float32 "
        f"model's in {100 * before.disagreement:.2f} % of cases before and {100 * after.disagreement:.2f} % after, "
        f"mean KL divergence {before.mean_kl:.2g} and {after.mean_kl:.2g} nats. By their 95 % intervals, the share of "
        f"differing tokens {upper_end(f'{100 * change.high:+.2f}', 'points')} and the divergence "
        f"{upper_end(f'{kl_change.high:+.2g}', 'nats')}; {conclusion(may, acceptable, few)}{caveat}"
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


def quality_name(generated: bool) -> Literal["quality", "numerical fidelity"]:
    """What the distance from float32 is called: generated weights have no quality to lose."""
    return "numerical fidelity" if generated else "quality"


def conclusion(allowed: str, acceptable: bool, few: bool) -> str:
    """The end of the sentence: what is `allowed`, "" for any rise, and the verdict, preliminary after too `few`."""
    verdict = f"acceptable{' so far' if few else ''}" if acceptable else "not acceptable"
    return f"{allowed or 'any rise is allowed, since the workload lets quality be unverified'}, so this is {verdict}."


def upper_end(change: str, unit: str) -> str:
    """The upper end of a change's interval, a number with its sign: `rises by at most 0.40 points`."""
    if not float(change):
        return "does not rise"
    verb, end = ("falls", "at least") if change.startswith("-") else ("rises", "at most")
    return f"{verb} by {end} {change.lstrip('+-')} {unit}"
