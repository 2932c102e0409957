"""The verdicts on a variant at a case. Imports without torch."""

from typing import Literal

Gate = Literal["pass", "fail", "impossible", "refused", "error"]
"""The verdict on a variant: `impossible`: the chip cannot reach its time; `refused`: it cannot serve the case."""
