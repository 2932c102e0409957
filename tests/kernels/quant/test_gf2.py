"""Inverses of maps that are linear in exclusive or."""

import pytest

from kernels.quant.gf2 import gf2_inverse


def test_an_inverse_gives_back_what_was_mapped():
    def linear(word: int) -> int:
        return word ^ (word << 5 & 0xFFFFFFFF)

    adds = gf2_inverse(linear)
    for word in (0, 1, 0x80000000, 0xDEADBEEF):
        found = 0
        for bit, added in enumerate(adds):
            found ^= added * (linear(word) >> bit & 1)
        assert found == word


def test_a_map_without_an_inverse_is_refused():
    with pytest.raises(ValueError, match="no inverse"):
        gf2_inverse(lambda word: word & 0xFF)
