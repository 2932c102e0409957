"""The flagged words of exchange.cuh, made and read. Imports without torch."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Words = NDArray[np.uint64]
FLAG_MASK = np.uint64(0xFFFF)


def flag_at(step: int, layer: int, layers: int) -> np.uint64:
    """The flag of the words of one layer of one token; never 0, the value of words before the launch."""
    return np.uint64((step * (layers + 1) + layer) % 0xFFFF + 1)


def bf16(x: Floats) -> Floats:
    """Rounded to bfloat16, to the nearest and to even."""
    return bf16_floats(bf16_bits(x))


def bf16_bits(x: Floats) -> NDArray[np.uint16]:
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & np.uint32(1))) >> 16
    return np.where(np.isnan(x), np.uint32(0x7FC0), rounded).astype(np.uint16)


def bf16_floats(bits: NDArray[np.uint16]) -> Floats:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def two_floats(x: Floats, flag: np.uint64) -> Words:
    """[..., 2n] floats as [..., n] words: each float keeps its upper 24 bits, rounded."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    upper = np.where(np.isfinite(x), bits.astype(np.uint64) + np.uint64(0x80), bits.astype(np.uint64)) >> np.uint64(8)
    return upper[..., 0::2] << np.uint64(40) | upper[..., 1::2] << np.uint64(16) | flag


def floats_of(words: Words) -> Floats:
    """[..., n] words of two floats as [..., 2n] floats."""
    first = (words >> np.uint64(32)).astype(np.uint32) & np.uint32(0xFFFFFF00)
    second = (words >> np.uint64(8)).astype(np.uint32) & np.uint32(0xFFFFFF00)
    return np.stack((first, second), axis=-1).view(np.float32).reshape(*words.shape[:-1], -1)


def eight_gated(x: Floats, flag: np.uint64) -> Words:
    """[..., 8] floats as [..., 4] words of three bfloat16 each; the fourth word holds only its flag."""
    bits = np.zeros((*x.shape[:-1], 12), dtype=np.uint64)
    bits[..., :8] = bf16_bits(x)
    three = bits.reshape(*x.shape[:-1], 4, 3)
    return three[..., 0] << np.uint64(48) | three[..., 1] << np.uint64(32) | three[..., 2] << np.uint64(16) | flag


def eight_normed(x: Floats, squares: Floats, flag: np.uint64) -> Words:
    """As `eight_gated`, with the float32 `squares` [...] in the fourth word."""
    words = eight_gated(x, flag)
    words[..., 3] = one_value(np.ascontiguousarray(squares, dtype=np.float32).view(np.uint32), flag)
    return words


def gated_of(words: Words) -> Floats:
    """[..., 4] words as [..., 8] floats."""
    three = np.stack([words >> np.uint64(shift) & FLAG_MASK for shift in (48, 32, 16)], axis=-1)
    return bf16_floats(three.reshape(*words.shape[:-1], 12)[..., :8].astype(np.uint16))


def one_value(bits: NDArray[np.uint32], flag: np.uint64) -> Words:
    """32 bits and the flag; the half between is empty."""
    return bits.astype(np.uint64) << np.uint64(32) | flag


def value_of(words: Words) -> NDArray[np.uint32]:
    return (words >> np.uint64(32)).astype(np.uint32)


def bin_of(mass: Floats, count: Floats, flag: np.uint64) -> Words:
    """A bin of logits: the mass of its tokens, and how many they are."""
    bits = np.ascontiguousarray(mass, dtype=np.float32).view(np.uint32).astype(np.uint64)
    return bits << np.uint64(32) | count.astype(np.uint64) << np.uint64(16) | flag


def sums_of(words: Words) -> list[tuple[Floats, Floats]]:
    """Mass and count [bins] of each sequence, summed over the SMs of [sms, batch, bins] bins."""
    mass = value_of(words).view(np.float32).sum(axis=0, dtype=np.float32)
    count = (words >> np.uint64(16) & FLAG_MASK).astype(np.float32).sum(axis=0)
    return list(zip(mass, count, strict=True))


def ordered(x: Floats) -> NDArray[np.uint32]:
    """Floats as integers that compare as the floats do, the two zeros alike; NaN is lowest."""
    bits = np.ascontiguousarray(x + np.float32(0), dtype=np.float32).view(np.uint32)
    number = np.where(bits >> 31 == 1, ~bits, bits | np.uint32(0x80000000))
    return np.where(np.isnan(x), np.uint32(0), number)


def soft_capped(x: Floats, cap: np.float32 | float) -> Floats:
    """cap · tanh(x / cap), or x where cap is 0."""
    return np.float32(cap) * np.tanh(x / np.float32(cap)) if cap else x


def candidates_of(x: Floats, tokens: NDArray[np.uint32]) -> Words:
    """Floats [..., n] and their tokens [n] as numbers that order by the float, then by the smaller token."""
    return ordered(x).astype(np.uint64) << np.uint64(32) | (~tokens.astype(np.uint32)).astype(np.uint64)


def tokens_of(candidates: Words) -> NDArray[np.uint32]:
    return ~(candidates & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def logits_of(candidates: Words) -> Floats:
    number = value_of(candidates)
    return np.where(number >> 31 == 1, number & np.uint32(0x7FFFFFFF), ~number).astype(np.uint32).view(np.float32)


def candidate_words(candidates: Words, flag: np.uint64) -> Words:
    """[n] candidates as [n, 2] words; the token keeps 31 bits."""
    token = tokens_of(candidates) & np.uint32(0x7FFFFFFF)
    return np.stack([one_value(value_of(candidates), flag), one_value(token, flag)], axis=-1)


def best_candidates(words: Words) -> Words:
    """The best [n] of [sms, n, 2] words."""
    token = value_of(words[..., 1])
    return (value_of(words[..., 0]).astype(np.uint64) << np.uint64(32) | (~token).astype(np.uint64)).max(axis=0)
