"""Tile configs of a small product, without torch. A wave fills the GPU; a cluster is the `splits` blocks of k."""

from dataclasses import dataclass
from functools import cache, cached_property

from kernels.cuda.occupancy import H200_CLUSTERS, MAX_SHARED_BYTES, max_active_clusters
from kernels.ops import LinearCase

COLUMNS = (16, 32, 64, 96, 128, 192, 256)
"""The N of a warpgroup product: padded rows of x that a block takes."""

WIDE = (*range(48, 161, 8), 192)
"""The N with `wide`: rows of w, as many as fill a wave of blocks."""

UNEVEN_N_COST = 1.25
"""The factor by which products take longer if N is not a multiple of 16."""

WIDE_FROM = 65
"""The least rows of x for `wide`; with fewer, most of the M of two warpgroups is empty."""

MIN_COLUMNS = 64
"""The least rows of x for another tile."""

PANEL = 64
CODES_BYTES = 64 * PANEL
PACKED_BYTES = CODES_BYTES + 64 * 2 * 2
"""Bytes of 64 rows of a panel in e4m3; and in int8, with a float16 scale for each 32 columns."""
WIDENED = {"int8": PACKED_BYTES, "fp8": CODES_BYTES}
"""Weights that become bf16 in registers, with the bytes of 64 rows of a panel."""
MAX_DYNAMIC = MAX_SHARED_BYTES - 4096
"""Bytes of the ring and the sums; barriers and sums of squares lie beside them."""
SQUARE_WARPS = 3
"""Warps that sum squares with RMSNorm; small_producer.cuh has the same number."""
MIN_STAGES, MAX_STAGES = 3, 12

MEMORY_KB_PER_US, CACHE_KB_PER_US = 4080.0, 14_200.0
"""KB per µs that memory delivers, and that all SMs together receive."""

REREAD_COST = 0.3
"""The part of w's further reads, one for each further tile of x, that costs as much as the first read."""

LATENCY_US, STEP_US = 1.5, 0.175
"""µs from the request of a stage to its arrival, under load; µs between a thread's requests of two stages."""

IN_FLIGHT_KB_PER_SM = 140.0
"""KB that must be in flight to an SM; the stage in use does not count."""

SM_WEIGHTS_PER_US = 60_000.0
"""int8 weights that an SM widens in a µs: a byte permute and half a conversion each, of which it does 64 a clock, at
1.7 GHz (predicted); four in e4m3 take seven integer instructions, so it widens as many. Measured of int8 are 22,000
with two warpgroups and 27,000 with four (`few-rows.json`), by which other configs would be chosen, and those have not
run."""

SM_MFLOP_PER_US, PUSH_KB_PER_US = 6.0, 40.0
"""MFLOP per µs of an SM; KB per µs of partial sums that it sends to other blocks."""

BEGIN_US, JOIN_US, ALIAS_US, END_US = 1.1, 0.25, 1.1, 1.05
"""µs until the first bytes arrive; to announce pushed sums; to wait until a cluster's rings are read; to write y."""


@dataclass(frozen=True)
class SmallTileConfig:
    """`groups` warpgroups of 64 rows of w a block; `splits` blocks divide k; `tokens` tiles of rows of x.

    With `wide` a warpgroup has 64 rows of x, and a block `wide` rows of w.
    """

    case: LinearCase
    groups: int
    splits: int
    tokens: int
    wide: int = 0

    @cached_property
    def columns(self) -> int:
        """The N of the products: padded rows of x in a tile, or rows of w."""
        return self.wide or next(column for column in COLUMNS if column * self.tokens >= self.case.m)

    @property
    def rows(self) -> int:
        """Rows of w in a tile."""
        return self.wide or 64 * self.groups

    @property
    def x_rows(self) -> int:
        """Rows of x in a tile."""
        return 64 * self.groups if self.wide else self.columns

    @property
    def row_tiles(self) -> int:
        """Tiles of 64 rows that a packed w has; gate and up are filled up to multiples of 8."""
        rows = 2 * (-(-self.case.n // 8) * 8) if self.case.gates else self.case.n
        return -(-rows // 64)

    @cached_property
    def clusters(self) -> int:
        outputs = self.rows // (2 if self.case.gates else 1)
        return -(-self.case.n // outputs) * self.tokens

    @property
    def blocks(self) -> int:
        return self.clusters * self.splits

    @cached_property
    def panels(self) -> int:
        """Steps of 64 columns of k of the block with the most steps."""
        return -(-self.case.k // (PANEL * self.splits))

    @property
    def widened(self) -> bool:
        return self.case.weights in WIDENED

    @property
    def w_bytes(self) -> int:
        """Bytes of w in a stage."""
        return self.groups * WIDENED[self.case.weights] if self.widened else self.rows * PANEL * 2

    @property
    def stage_bytes(self) -> int:
        """Bytes of a stage; x begins at multiples of 1024."""
        return -(-self.w_bytes // 1024) * 1024 + self.x_rows * PANEL * 2

    @cached_property
    def rows_of_block(self) -> int:
        """The most rows, of each 8 rows of x, whose sums one block owns."""
        return -(-self.columns // 8 // self.splits)

    @cached_property
    def sums_bytes(self) -> int:
        """Bytes of partial sums that a cluster's blocks send to the block that owns them."""
        return self.splits * self.rows_of_block * 8 * self.rows * 4 if self.splits > 1 else 0

    @cached_property
    def sums_alias_ring(self) -> bool:
        """Whether the sums reuse the ring's memory; the ring is then longer, but this costs a barrier."""
        stages = (MAX_DYNAMIC - self.sums_bytes) // self.stage_bytes  # beside sums with memory of their own
        return self.splits > 1 and stages < self.panels and (stages - 1) * self.stage_bytes < IN_FLIGHT_KB_PER_SM * 1000

    @cached_property
    def stages(self) -> int:
        """Stages of the ring, a panel each."""
        available = MAX_DYNAMIC - (0 if self.sums_alias_ring else self.sums_bytes)
        return min(MAX_STAGES, self.panels, available // self.stage_bytes)

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory: the ring and the sums. y is assembled in the ring's memory."""
        ring, y_bytes = self.stages * self.stage_bytes, self.groups * self.rows_of_block * 1024
        if self.wide:
            chunks = self.rows // (16 if self.case.gates else 8)
            y_bytes = self.groups * 64 * (chunks | 1) * 16
        return max(ring, self.sums_bytes + y_bytes) if self.sums_alias_ring else max(ring, y_bytes) + self.sums_bytes

    @property
    def beside_bytes(self) -> int:
        """Static shared memory in units of the ring's alignment: barriers, sums of squares and their parts."""
        parts = SQUARE_WARPS - 1 if self.case.normalises else 0
        used = (2 * self.stages + 2) * 8 + (self.splits + parts) * self.x_rows * 4
        return -(-used // 1024) * 1024

    @property
    def threads(self) -> int:
        return self.groups * 128 + 32 + (32 * SQUARE_WARPS if self.case.normalises else 0)

    @property
    def registers(self) -> int:
        """Estimated registers of a thread: sums, loaded residual values, addresses."""
        residual = self.columns // 4 + 8 if self.wide else 2 * self.rows_of_block + 8
        widened = 36 if self.widened else 0
        return self.columns // 2 + (residual if self.case.epilogue == "residual" else 0) + widened + 32

    @property
    def fits(self) -> bool:
        return (
            self.splits * PANEL <= max(PANEL, self.case.k)
            and self.shared_bytes <= MAX_DYNAMIC
            and self.shared_bytes + self.beside_bytes <= MAX_SHARED_BYTES
            and self.registers <= 65_536 // (-(-self.threads // 128) * 128)
            and self.stages >= min(MIN_STAGES, self.panels)
            and (self.tokens == 1 or self.x_rows >= MIN_COLUMNS)
            and (not self.wide or self._fills_x)
        )

    @property
    def _fills_x(self) -> bool:
        return self.case.m >= WIDE_FROM and 0 <= self.x_rows * self.tokens - self.case.m < 64

    @cached_property
    def waves(self) -> int:
        """Waves of clusters: how often all clusters that fit at once, one block an SM, must run."""
        return -(-self.clusters // max_active_clusters(self.splits, self.threads, MAX_SHARED_BYTES))

    def microseconds(self) -> float:
        """Estimated µs without the launch: beginning, streaming, joining, writing."""
        joined = 0.0
        if self.splits > 1:
            pushed = self.sums_bytes * (self.splits - 1) / self.splits / 1000
            joined = JOIN_US + self.sums_alias_ring * ALIAS_US + pushed / PUSH_KB_PER_US
        return self.waves * (BEGIN_US + joined + END_US) + self._streaming()

    def _streaming(self) -> float:
        """The slowest of memory, L2, the busiest SM's copies and its products."""
        case = self.case
        byte = WIDENED[case.weights] / CODES_BYTES if self.widened else 2
        w, x = case.weight_rows * case.k * byte / 1000, case.m * case.k * 2 / 1000
        steps, stage = self.waves * self.panels, self.stage_bytes / 1000
        flying = (self.stages - (self.panels > self.stages)) * stage
        return max(
            (w * (1 + REREAD_COST * (self.tokens - 1)) + x) / MEMORY_KB_PER_US,
            self.blocks * self.panels * stage / CACHE_KB_PER_US,
            steps * max(STEP_US, stage * LATENCY_US / flying),
            steps
            * 2
            * self.rows
            * self.x_rows
            * PANEL
            / 1e6
            / SM_MFLOP_PER_US
            * (UNEVEN_N_COST if self.wide % 16 else 1),
            steps * self.rows * PANEL / SM_WEIGHTS_PER_US if self.widened else 0.0,
        )

    def macros(self) -> dict[str, int]:
        """The macros of small.cu that follow from the tile config."""
        return {
            "HALF": int(self.case.dtype == "fp16"), "INT8": int(self.case.weights == "int8"),
            "FP8": int(self.case.weights == "fp8"), "ALIAS": int(self.sums_alias_ring),
            "COLS": self.columns, "ACROSS": int(self.wide > 0),
            "TOKEN_TILES": self.tokens, "WGS": self.groups, "SPLITS": self.splits, "STAGES": self.stages,
            "PAIRED": int(self.case.gates), "NORM": int(self.case.normalises),
            "RESIDUAL": int(self.case.epilogue == "residual"), "SHARED_BYTES": self.shared_bytes,
        }  # fmt: skip


@cache
def configs(case: LinearCase) -> tuple[SmallTileConfig, ...]:
    """Every tile config of the case, the best guess first, of equal ones the one that uses more SMs; cached."""
    candidates = [
        SmallTileConfig(case, groups, splits, tokens)
        for groups in (1, 2, 3, 4)
        for splits in H200_CLUSTERS
        for tokens in (1, 2, 4)
    ]
    if case.weights not in WIDENED:  # whose operands lie in registers, as only the first of a product may
        wide = (_wide(case, groups, tokens) for groups in (1, 2, 3, 4) for tokens in (1, 2, 4))
        candidates += [config for some in wide for config in some]
    fitting = (config for config in candidates if config.fits)
    return tuple(sorted(fitting, key=lambda config: (config.microseconds(), config.waves, -config.blocks)))


def _wide(case: LinearCase, groups: int, tokens: int) -> list[SmallTileConfig]:
    """For each number of waves the fewest rows of w a block, and the fewest that 16 divides, as gates need."""
    candidates = [SmallTileConfig(case, groups, 1, tokens, wide) for wide in reversed(WIDE)]
    smallest = {(config.waves, config.wide % 16): config for config in candidates}
    return [config for (_, rest), config in smallest.items() if not (case.gates and rest)]
