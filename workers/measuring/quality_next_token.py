"""How well runners predict each token of a text from those before it: accuracy and perplexity, with intervals."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch

from workers.documents.quality import TextScores
from workers.measuring.texts import Tokens
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


def sentence(scores: TextScores | None) -> str:
    """The scores in a sentence that follows others; "" without any."""
    if scores is None:
        return ""
    change, ratio = scores.accuracy_change, scores.perplexity_ratio
    caveat = " One sequence has no interval." if scores.sequences == 1 else ""
    return (
        f" On {scores.source} ({scores.sequences:,} sequences of {scores.length:,} tokens) "
        f"{100 * scores.accuracy_before.value:.2f} % of the next tokens are predicted right before and "
        f"{100 * scores.accuracy_after.value:.2f} % after (change {100 * change.low:+.2f} to {100 * change.high:+.2f} "
        f"points), perplexity {_plain(scores.perplexity_before.value)} and {_plain(scores.perplexity_after.value)} "
        f"({ratio.low:.4f} to {ratio.high:.4f} times).{caveat}"
    )


def _plain(value: float) -> str:
    return f"{value:,.4g}" if math.isfinite(value) and value < 1e4 else f"{value:.3g}"
