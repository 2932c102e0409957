"""How the next token is drawn, by every runner and by the LM head, and its reference in numpy. Imports without torch.

A draw is an argmax: of `logit / temperature + gumbel` over the tokens that top-k and top-p keep, which has exactly the
softmax's distribution over them (Gumbel-max). The noise of a token is a function of seed, stream, index of the token
in its sequence and the token's id alone: the same request gives the same answer, whatever runs beside it.

What is kept follows transformers: top-k first, then the nucleus of what is left. Tokens whose logits equal that of the
last one kept are kept too. NaN is below every number: a token whose logit is NaN is taken only where all are NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

TEMPERATURES = (0.01, 100.0)
LOW = 0xFFFFFFFF
"""The lower 32 bits of a number."""
ROUNDS = 10
Uint32s = Any
"""32-bit numbers in 64-bit integers: a numpy array of uint64, a torch tensor of int64 or, in a key, an int."""


@dataclass(frozen=True)
class Sampling:
    """How a sequence's tokens are chosen: greedy, or by a `temperature` above 0; `top_k` 0 and `top_p` 1 keep all.
    `stream` numbers the sequences of one seed. Raises ValueError naming the field.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    stream: int = 0

    def __post_init__(self) -> None:
        low, high = TEMPERATURES
        if self.temperature != 0 and not low <= self.temperature <= high:
            raise ValueError(f"temperature: {self.temperature} is neither 0 nor in {low} to {high}")
        if self.top_k < 0:
            raise ValueError(f"top_k: {self.top_k} is less than 0")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: {self.top_p} is not above 0 and at most 1")
        for name, bits in (("seed", 64), ("stream", 32)):
            if not 0 <= getattr(self, name) < 1 << bits:
                raise ValueError(f"{name}: {getattr(self, name)} is no unsigned number of {bits} bits")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


GREEDY = Sampling()
Samplings = Sampling | Sequence[Sampling] | None
"""What `generate` takes: one for each sequence; or one for all, and the stream of a sequence is then its row."""


def expand_samplings(sampling: Samplings, batch: int) -> list[Sampling]:
    """One for each of `batch` sequences. Raises ValueError for another number of them."""
    if sampling is None:
        return [GREEDY] * batch
    if isinstance(sampling, Sampling):
        fields = vars(sampling)
        return [Sampling(**(fields | {"stream": sampling.stream + row})) for row in range(batch)]
    if len(sampling) != batch:
        raise ValueError(f"sampling: {len(sampling)} for {batch} sequences")
    return list(sampling)


def philox(key: tuple[Uint32s, Uint32s], counter: tuple[Uint32s, Uint32s, Uint32s, Uint32s]) -> tuple[Uint32s, ...]:
    """Philox 4x32-10 (Salmon et al., SC 2011): the four random numbers of 32 bits for each key and counter."""
    a, b, c, d = counter
    first, second = key
    for _ in range(ROUNDS):
        one, two = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (two >> 32 & LOW) ^ b ^ first, two & LOW, (one >> 32 & LOW) ^ d ^ second, one & LOW
        first, second = first + 0x9E3779B9 & LOW, second + 0xBB67AE85 & LOW
    return a, b, c, d


def gumbel(sampling: Sampling, index: int, tokens: NDArray[np.integer]) -> Floats:
    """The noise of `tokens` [n] when they stand to become token `index` of their sequence."""
    ids = tokens.astype(np.uint64)
    place, stream, zero = (np.full_like(ids, value) for value in (index, sampling.stream, 0))
    bits = philox((sampling.seed & LOW, sampling.seed >> 32), (ids, place, stream, zero))[0].astype(np.float32)
    uniform = np.minimum(bits * np.float32(2**-32) + np.float32(2**-33), np.float32(1 - 2**-24))
    return -np.log(-np.log1p(-uniform))


def add_gumbel_noise(sampling: Sampling, logits: Floats, tokens: NDArray[np.integer], index: int) -> Floats:
    """logit / temperature + gumbel of `tokens` [n]: the largest is a draw from the softmax over them."""
    return logits * np.float32(1 / sampling.temperature) + gumbel(sampling, index, tokens)


def candidate_mask(logits: Floats, sampling: Sampling) -> NDArray[np.bool_]:
    """Which tokens of `logits` [vocab] may be drawn; the nucleus' mass is taken in float64.

    NaN is never kept. When the largest is no finite number, only what equals it is.
    """
    falling = np.sort(logits[~np.isnan(logits)])[::-1]
    if not falling.size or not np.isfinite(falling[0]):
        return logits == falling[0] if falling.size else np.zeros(len(logits), dtype=bool)
    threshold = falling[sampling.top_k - 1] if 0 < sampling.top_k < len(falling) else np.float32(-np.inf)
    if sampling.top_p < 1:
        falling = falling[falling >= threshold].astype(np.float64)
        mass = np.exp((falling - falling[0]) / sampling.temperature).cumsum()
        threshold = np.float32(falling[np.searchsorted(mass, sampling.top_p * mass[-1])])
    return logits >= threshold


def scores(logits: Floats, sampling: Sampling, index: int) -> Floats:
    """What competes to become token `index`: minus infinity for tokens that are not kept, the logits when greedy."""
    if sampling.greedy:
        return logits
    drawn = add_gumbel_noise(sampling, logits, np.arange(len(logits)), index)
    return np.where(candidate_mask(logits, sampling), drawn, np.float32(-np.inf))


def sample_token(logits: Floats, sampling: Sampling, index: int) -> int:
    """The token at `index` of its sequence from `logits` [vocab]; of equals the smaller id, 0 if all are NaN."""
    tokens = np.flatnonzero(~np.isnan(logits) if sampling.greedy else candidate_mask(logits, sampling))
    if not tokens.size:
        return 0
    scores = logits[tokens] if sampling.greedy else add_gumbel_noise(sampling, logits[tokens], tokens, index)
    return int(tokens[np.argmax(scores)])
