"""How a small product is cut: rows of w a block, splits of k, stages of its ring. No torch."""

import math
from dataclasses import dataclass
from functools import cached_property

from kernels.ops import LinearCase

COLUMNS = (32, 64, 96, 128, 192, 256)
"""Rows of x that a warpgroup product can take as its N."""

SHARED_MOST = 232_448 - 4096
SHARED_HALF = 115_712 - 4096
SM_KB_PER_US = 42.0
"""What an SM takes in when all do, weights from memory and x from the second-level cache."""

PANEL = 64
SPLIT_US, WAVE_US = 1.5, 1.0


@dataclass(frozen=True)
class SmallCut:
    """`groups` warpgroups of 64 rows of w a block; `splits` blocks divide k."""

    case: LinearCase
    groups: int
    splits: int

    @cached_property
    def columns(self) -> int:
        """Rows of x, padded."""
        return next(each for each in COLUMNS if each >= self.case.m)

    @cached_property
    def tiles(self) -> int:
        """Blocks (clusters, when split) that share the outputs."""
        return -(-self.case.n // (64 if self.case.gates else 64 * self.groups))

    @cached_property
    def stage_bytes(self) -> int:
        return (64 * self.groups + self.columns) * PANEL * 2

    @cached_property
    def sums_bytes(self) -> int:
        return self.columns * (64 * self.groups + 4) * 4

    @cached_property
    def blocks(self) -> int:
        """Blocks that an SM holds at once."""
        registers = self.columns // 2 + 40
        memory = max(3 * self.stage_bytes, self.sums_bytes)
        return 2 if memory <= SHARED_HALF and 2 * self.threads * registers <= 65_536 else 1

    @cached_property
    def stages(self) -> int:
        """Panels of 64 columns in flight."""
        room = SHARED_HALF if self.blocks == 2 else SHARED_MOST
        return min(12, room // self.stage_bytes)

    @cached_property
    def shared_bytes(self) -> int:
        return max(self.stages * self.stage_bytes, self.sums_bytes)

    @cached_property
    def threads(self) -> int:
        return self.groups * 128 + (128 if self.case.normalises else 32)

    def microseconds(self, sms: int = 132) -> float:
        """A guess: the fullest SM's bytes, the reduction, the waves."""
        panels = math.ceil(self.case.k / PANEL / self.splits)
        fullest = -(-self.tiles * self.splits // sms)
        moved = fullest * panels * self.stage_bytes / 1000 / SM_KB_PER_US
        joined = 0.0 if self.splits == 1 else SPLIT_US + 2 * self.sums_bytes / 1000 / 100
        return moved + joined + WAVE_US * (fullest - 1)

    def macros(self) -> dict[str, int]:
        """What small.cu is compiled with."""
        return {
            "HALF": int(self.case.dtype == "fp16"), "COLS": self.columns, "WGS": self.groups, "SPLITS": self.splits,
            "STAGES": self.stages, "BLOCKS": self.blocks, "PAIRED": int(self.case.gates),
            "NORM": int(self.case.normalises),
        }  # fmt: skip


def cuts(case: LinearCase) -> list[SmallCut]:
    """Every cut of the case, the best guess first."""
    found = [
        SmallCut(case, groups, splits)
        for groups in ((2,) if case.gates else (2, 1))
        for splits in (1, 2, 4, 8)
        if splits * PANEL <= max(PANEL, case.k)
    ]
    return sorted((each for each in found if each.stages >= 2), key=lambda each: each.microseconds())
