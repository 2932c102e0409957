"""Inverts maps of bits that are linear over GF(2), where addition is exclusive or. Imports without torch."""

from collections.abc import Callable

BITS = 32
"""Bits of a word."""


def gf2_inverse(linear: Callable[[int], int]) -> list[int]:
    """The words that each bit of a map's result, lowest first, contributes by exclusive or to its argument, by
    elimination over GF(2). Raises ValueError if the map is not invertible.
    """
    rows = [(linear(1 << bit), 1 << bit) for bit in range(BITS)]  # results and arguments, until results are single bits
    for bit in range(BITS):
        at = next((i for i in range(bit, BITS) if rows[i][0] >> bit & 1), None)
        if at is None:
            raise ValueError(f"linear has no inverse: bit {bit} of its result depends on the others")
        rows[bit], rows[at] = rows[at], rows[bit]
        result, argument = rows[bit]
        for i, (other, before) in enumerate(rows):
            if i != bit and other >> bit & 1:
                rows[i] = (other ^ result, before ^ argument)
    return [argument for _, argument in rows]
