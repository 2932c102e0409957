"""How a small product is cut: rows of w a block, neighbours that share x, splits of k, stages. No torch.

One wave fills the GPU, or the best of several; a cluster is `share` · `splits` blocks.
"""

from dataclasses import dataclass
from functools import cached_property

from kernels.ops import LinearCase

COLUMNS = (16, 32, 64, 96, 128, 192, 256)
"""Rows of x that a block takes, the N of its warpgroup products."""

PANEL = 64
SHARED_MOST = 232_448 - 4096
STAGES_LEAST, STAGES_MOST = 3, 12
CLUSTER_MOST = 8

AT_ONCE = {1: 132, 2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15}
"""Clusters of so many blocks, one block an SM, that an H200 runs at once (`cuOccupancyMaxActiveClusters`)."""

MEMORY_KB_PER_US, CACHE_KB_PER_US, SM_KB_PER_US = 4300.0, 9000.0, 100.0
"""What the memory gives, the second-level cache, and what one SM takes in."""

LATENCY_US = 1.4
"""From asking for a stage to having it, under load."""

FLYING_KB = LATENCY_US * SM_KB_PER_US
"""What must be on its way to an SM that takes in all it can; the stage that is being multiplied is not."""

SM_MFLOP_PER_US, PUSH_KB_PER_US, FINISH_KB_PER_US = 5.8, 60.0, 50.0
"""Products; sums that go to other blocks; y."""

BEGIN_US, BARRIER_US = 1.3, 0.4
"""Until the first bytes arrive; a barrier of a cluster."""


@dataclass(frozen=True)
class SmallCut:
    """`groups` warpgroups of 64 rows of w a block; `splits` blocks divide k; `share` blocks copy x for each other;
    `tokens` tiles of rows of x.
    """

    case: LinearCase
    groups: int
    splits: int
    share: int
    tokens: int

    @cached_property
    def columns(self) -> int:
        """Rows of x in a tile, padded."""
        return next(each for each in COLUMNS if each * self.tokens >= self.case.m)

    @property
    def rows(self) -> int:
        """Rows of w in a tile."""
        return 64 * self.groups

    @cached_property
    def clusters(self) -> int:
        outputs = self.rows // (2 if self.case.gates else 1)
        return -(-self.case.n // (outputs * self.share)) * self.tokens

    @property
    def blocks(self) -> int:
        return self.clusters * self.share * self.splits

    @cached_property
    def panels(self) -> int:
        """Steps of 64 columns of k, of the block that has most."""
        return -(-self.case.k // (PANEL * self.splits))

    @property
    def stage_bytes(self) -> int:
        return (self.rows + self.columns) * PANEL * 2

    @cached_property
    def own(self) -> int:
        """Of 8 rows of x, those whose sums a block owns at most."""
        return -(-self.columns // 8 // self.splits)

    @cached_property
    def sums_bytes(self) -> int:
        """Sums that the blocks of a cluster leave with the one that owns them."""
        return self.splits * self.own * 8 * self.rows * 4 if self.splits > 1 else 0

    @cached_property
    def alias(self) -> bool:
        """Whether the sums take the place of the ring, which then is longer but costs a barrier."""
        apart = (SHARED_MOST - self.sums_bytes) // self.stage_bytes
        return self.splits > 1 and apart < self.panels and (apart - 1) * self.stage_bytes < FLYING_KB * 1000

    @cached_property
    def stages(self) -> int:
        """Panels in flight."""
        room = SHARED_MOST - (0 if self.alias else self.sums_bytes)
        return min(STAGES_MOST, self.panels, room // self.stage_bytes)

    @property
    def shared_bytes(self) -> int:
        ring = self.stages * self.stage_bytes
        return max(ring, self.sums_bytes) if self.alias else ring + self.sums_bytes

    @property
    def threads(self) -> int:
        return self.groups * 128 + (128 if self.case.normalises else 32)

    @property
    def registers(self) -> int:
        """A thread's, about: sums, what is fetched of a residual, addresses."""
        return self.columns // 2 + (2 * self.own + 8 if self.case.epilogue == "residual" else 0) + 32

    @property
    def fits(self) -> bool:
        return (
            self.share * self.splits <= CLUSTER_MOST
            and self.splits * PANEL <= max(PANEL, self.case.k)
            and self.columns % (8 * self.share) == 0
            and self.shared_bytes <= SHARED_MOST
            and self.registers <= 65_536 // (-(-self.threads // 128) * 128)
            and self.stages >= min(STAGES_LEAST, self.panels)
        )

    @property
    def waves(self) -> int:
        """Times that all clusters which fit at once have to run."""
        return -(-self.clusters // AT_ONCE[self.share * self.splits])

    def microseconds(self) -> float:
        """A guess without the launch: beginning, streaming, joining, writing."""
        joined = 0.0
        if self.splits > 1:
            joined = (1 + self.alias) * BARRIER_US + self.sums_bytes / 1000 / PUSH_KB_PER_US
        written = self.rows * self.columns * 2 / 1000 / self.splits / FINISH_KB_PER_US
        return self.waves * (BEGIN_US + joined + written) + self._streaming()

    def _streaming(self) -> float:
        """What is slowest of memory, cache, the fullest SM's copies and its products."""
        case = self.case
        w, x = case.weight_rows * case.k * 2 / 1000, case.m * case.k * 2 / 1000
        cached = self.tokens * w + self.clusters * self.columns * case.k * 2 / 1000
        steps = self.waves * self.panels
        rate = SM_KB_PER_US
        if self.panels > self.stages:
            rate = min(rate, (self.stages - 1) * self.stage_bytes / 1000 / LATENCY_US)
        return max(
            (w + x) / MEMORY_KB_PER_US,
            cached / CACHE_KB_PER_US,
            steps * self.stage_bytes / 1000 / rate,
            steps * 2 * self.rows * self.columns * PANEL / 1e6 / SM_MFLOP_PER_US,
        )

    def macros(self) -> dict[str, int]:
        """What small.cu is compiled with."""
        return {
            "HALF": int(self.case.dtype == "fp16"), "ALIAS": int(self.alias), "COLS": self.columns,
            "TOKEN_TILES": self.tokens, "WGS": self.groups, "SPLITS": self.splits, "SHARE": self.share,
            "STAGES": self.stages, "PAIRED": int(self.case.gates), "NORM": int(self.case.normalises),
            "RESIDUAL": int(self.case.epilogue == "residual"),
        }  # fmt: skip


def cuts(case: LinearCase) -> list[SmallCut]:
    """Every cut of the case, the best guess first."""
    found = [
        SmallCut(case, groups, splits, share, tokens)
        for groups in (1, 2, 3, 4)
        for splits in range(1, CLUSTER_MOST + 1)
        for share in (1, 2, 4)
        for tokens in ((1,) if case.m <= 128 else (1, 2))
    ]
    return sorted((each for each in found if each.fits), key=lambda each: each.microseconds())
