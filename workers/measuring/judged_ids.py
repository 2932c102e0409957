"""Ids that were held against the model's logits, as a document."""

from kernels.proof.served_ids import LogitGaps
from workers.documents.measurement import ServedIds


def served_ids(gaps: LogitGaps, allowed: float, sentence: str) -> ServedIds:
    """The gaps with their verdict; `sentence` is said where the ids are the model's, the refusal where they are not.

    `allowed` is the mean logit gap that rounding explains (`kernels.proof.served_ids`).
    """
    refusal = gaps.refusal(allowed)
    return ServedIds(
        tokens=gaps.tokens,
        mean_gap=gaps.mean,
        largest_gap=gaps.largest,
        acceptable=refusal is None,
        sentence=refusal or sentence,
    )
