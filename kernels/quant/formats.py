"""Formats of numbers of eight and four bits. Imports without torch."""

from typing import Literal

Scales = Literal["tensor", "row", "block"]
"""The values that share one scale: the whole tensor, a row, or a block."""

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The magnitudes of a 4-bit number by its lower three bits; the fourth is the sign."""
