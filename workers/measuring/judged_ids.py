"""Ids that were held against the model's logits, as a document."""

from kernels.proof.served_ids import LogitGaps
from workers.documents.measurement import ServedIds


def served_ids(gaps: LogitGaps, refusal: str | None, sentence: str, own: LogitGaps | None = None) -> ServedIds:
    """The gaps with their verdict; `sentence` is said where the ids are the model's, `refusal` where they are not.

    `own` are the gaps by the logits of the runner that served, where these were judged as well.
    """
    return ServedIds(
        tokens=gaps.tokens,
        mean_gap=gaps.mean,
        largest_gap=gaps.largest,
        own_mean_gap=own.mean if own else None,
        own_largest_gap=own.largest if own else None,
        acceptable=refusal is None,
        sentence=refusal or sentence,
    )
