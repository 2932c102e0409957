"""How the interpreter's SMs draw a token together. Imports without torch."""

from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np

from kernels.megakernel.program.exchange import bin_words, bins_of
from kernels.ops.sampling import add_gumbel_noise
from tests.kernels.megakernel.interpreter.threshold_search import ThresholdSearch, area_of, flag_of
from tests.kernels.megakernel.interpreter.words import (
    Words,
    best_candidates,
    bin_of,
    candidate_words,
    candidates_of,
    logits_of,
    sums_of,
    value_of,
)

if TYPE_CHECKING:
    from tests.kernels.megakernel.interpreter.sm import StreamingMultiprocessor


def draw_candidates(sm: "StreamingMultiprocessor", best: Words) -> Generator[bool, None, Words]:
    """Candidates [batch]: `best`, or for sampled sequences a draw among the tokens that are kept."""
    vocab, batch, sampling = sm.shape.vocab, sm.layout.batch, sm.gpu.sampling
    bins, logits = bins_of(batch), sm.gpu.logits[sm.step, :, sm.own]
    searches = [ThresholdSearch(how, vocab, most, bins) for how, most in zip(sampling, logits_of(best), strict=True)]
    while any(search.goal for search in searches):
        flag = flag_of(sm.round)
        own = [bin_of(*search.bins_of(row), flag) for search, row in zip(searches, logits, strict=True)]
        words = yield from exchange(sm, np.concatenate(own))
        for search, sums in zip(searches, sums_of(words.reshape(len(words), -1, bins)[:, :batch]), strict=True):
            if search.goal:
                search.narrow(*sums)
    picks = np.zeros(batch, dtype=np.uint64)
    ids = np.arange(sm.own.start, sm.own.stop, dtype=np.uint32)
    for b, (how, search) in enumerate(zip(sampling, searches, strict=True)):
        keep = logits[b] >= search.threshold
        if not how.greedy and keep.any():
            scores = add_gumbel_noise(how, logits[b, keep], ids[keep], sm.length(b))
            picks[b] = candidates_of(scores, ids[keep]).max()
    flag = flag_of(sm.round)
    words = yield from exchange(sm, candidate_words(picks, flag).ravel())
    drawn = best_candidates(words[:, : 2 * batch].reshape(-1, batch, 2))
    return np.where(value_of(drawn) > 0, drawn, best)


def exchange(sm: "StreamingMultiprocessor", own: Words) -> Generator[bool, None, Words]:
    """One round: writes this SM's words, padded with empty ones, and reads the words of all, [sms, bin_words]."""
    area, flag = area_of(sm.round), flag_of(sm.round)
    words = np.full(bin_words(sm.layout.batch), flag)
    words[: len(own)] = own
    sm.store("counts", (area, sm.everywhere), words)
    yield True
    words = yield from sm.take("counts", area, flag)
    sm.round += 1
    return words
