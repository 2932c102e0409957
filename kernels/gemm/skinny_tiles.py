"""Tile configs of a skinny product: units, steps and splits, and the shared memory they take. Imports without torch.

A *step* is what one warp reads at once: 16 rows × `STEP_K` columns, `STEP_BYTES` long. A *unit* is the rows that a
block finishes together. The blocks of a cluster (`splits`) share units and divide k.
"""

from dataclasses import dataclass
from functools import cache, cached_property

from kernels.cuda.occupancy import H200_CLUSTERS, MAX_SHARED_BYTES, SHARED_HALF, max_active_clusters
from kernels.ops import LinearCase
from kernels.quant.formats import INT4

KINDS = ("same", "fp8", "nvfp4", *INT4, "int8", "mxfp4")
"""Types of weight in the order of `Kind` in skinny_weights.cuh."""

STEP_K = {"same": 32, "fp8": 32, "nvfp4": 64, "int8": 32, "mxfp4": 64} | dict.fromkeys(INT4, 64)
STEP_BYTES = {
    "same": 1024, "fp8": 512, "nvfp4": 576, "int4": 576, "int4_zero": 576, "int4_minimum": 640, "int8": 544,
    "mxfp4": 544,
}  # fmt: skip

CANDIDATES_BYTES = 8 << 10
"""Static shared memory of an LM head's candidates."""

RING_ALONE = 128 << 10
MIN_RING = 32 << 10
MAX_CHUNK = 20 << 10
MAX_STAGES = 16

CLUSTERS_SPARED = {4: 1}
"""Clusters left out though they find room, by their blocks: on an H200 30 clusters of four were slower than 29."""

STATIC_SHARE = 0.6
"""Share of the units that the dynamic scheduler leaves static. Some SMs are a fifth slower than the mean."""

SPLIT_US, UNIT_US = 2.0, 0.1
"""µs that the sum over splits costs, and µs to finish a unit."""

SM_KB_PER_US = 33.7
"""KB that one of an H200's SMs streams per µs when all SMs stream."""


@dataclass(frozen=True)
class TileConfig:
    """The tile config of a product [m, rows] over k, rows as packed. `keep`: sums are kept to the end; `spare`: bytes
    of shared memory used otherwise; `row_bytes`: bytes of bias and residual a row.
    """

    kind: str
    m: int
    rows: int
    k: int
    splits: int = 1
    k_warps: int = 8
    row_tiles: int = 1
    warps: int = 8
    keep: bool = False
    spare: int = 0
    row_bytes: int = 0

    @cached_property
    def unit_rows(self) -> int:
        return self.warps // self.k_warps * self.row_tiles * 16

    @cached_property
    def units(self) -> int:
        return -(-self.rows // self.unit_rows)

    @cached_property
    def steps(self) -> int:
        """Steps of a warp in one unit of one split."""
        return -(-self.k // (self.splits * self.k_warps * STEP_K[self.kind]))

    @cached_property
    def split_k(self) -> int:
        """Columns of one split, padded."""
        return self.steps * self.k_warps * STEP_K[self.kind]

    @cached_property
    def blocks(self) -> int:
        """Blocks whose registers an SM must be able to hold at once."""
        return 2 if self.warps == 8 and self.m * self.row_tiles <= 16 else 1

    @cached_property
    def step_bytes(self) -> int:
        """Bytes that all warps of a block read in one step."""
        return self.warps * self.row_tiles * STEP_BYTES[self.kind]

    @cached_property
    def chunk(self) -> int:
        """Steps that one bulk copy brings: a divisor of those of a unit."""
        return max(
            n for n in range(1, self.steps + 1) if self.steps % n == 0 and (n == 1 or n * self.step_bytes <= MAX_CHUNK)
        )

    @cached_property
    def x_bytes(self) -> int:
        """Bytes of a row of x in shared memory: the stride is 64 modulo 128, so that no two rows meet in a bank."""
        return -(-self.split_k * 2 // 128) * 128 + 64

    @property
    def layout(self) -> str:
        """The fields that fix the order of a packed weight's values: configs of equal layouts read the same stream."""
        names = ("kind", "rows", "k", "splits", "k_warps", "row_tiles", "warps")
        return " ".join(f"{name}={getattr(self, name)}" for name in names)

    @property
    def threads(self) -> int:
        """Threads of a block: the consumer warps, a producer and a helper."""
        return self.warps * 32 + 64

    def max_active(self) -> int:
        """Clusters of `splits` blocks, one block an SM, that the current GPU runs at once."""
        return max_active_clusters(self.splits, self.threads, MAX_SHARED_BYTES)

    def groups(self, max_active: int) -> int:
        """How many blocks (clusters, when split) divide the units, where the GPU runs `max_active` of them."""
        return max(1, min(self.units, max_active - CLUSTERS_SPARED.get(self.splits, 0)))

    def most_units(self, max_active: int) -> int:
        """Units of the block with the most units."""
        return -(-self.units // self.groups(max_active))

    def static_units(self, max_active: int, pdl: bool) -> int:
        """Static units beside a dynamic scheduler: what fills the rings, and at least STATIC_SHARE of all."""
        groups = self.groups(max_active)
        ring = -(-self.stages(max_active, pdl) * self.chunk // self.steps)
        units = max(ring, int(STATIC_SHARE * self.units / groups))
        return min(self.units, groups * units)

    def kept_units(self, max_active: int) -> int:
        """Units whose sums a block keeps to the end."""
        return self.most_units(max_active) if self.keep or self.splits > 1 else 0

    @property
    def struct_bytes(self) -> int:
        """sizeof(Shared) of skinny_stream.cuh: barriers, sums of squares, scales, partial sums."""
        sums = 2 * self.warps * self.row_tiles * (2 if self.m > 8 else 1) * 640
        return (2 * 16 + 2) * 8 + 16 * 4 + 16 + 16 * self.warps * 4 + 4 * 64 + sums

    def fixed_bytes(self, max_active: int) -> int:
        """Shared memory without the ring: barriers, partial sums, kept sums, scales, bias, residual, x."""
        rows = self.most_units(max_active) * self.unit_rows
        sum_bytes = self.kept_units(max_active) * self.m * self.unit_rows * 4
        scales = rows * 4 if self.kind in ("fp8", "nvfp4") else 0
        fixed = scales + rows * self.row_bytes
        return self.spare + _line(self.struct_bytes) + _line(sum_bytes + fixed + 128) + _line(self.x_bytes * self.m)

    def stages(self, max_active: int, pdl: bool) -> int:
        """Chunks of the ring; 0 when the shared memory is too small."""
        chunk = self.chunk * self.step_bytes
        fixed = self.fixed_bytes(max_active)
        max_stages = min(MAX_STAGES, max(2, self.most_units(max_active) * self.steps // self.chunk))
        beside = (SHARED_HALF - fixed) // chunk
        if pdl and beside * chunk >= MIN_RING:
            return min(max_stages, beside)
        stages = min(max_stages, RING_ALONE // chunk, (MAX_SHARED_BYTES - fixed) // chunk)
        return stages if stages >= 2 else 0

    def shared_bytes(self, max_active: int, pdl: bool) -> int:
        """Dynamic shared memory of a launch."""
        return self.fixed_bytes(max_active) - self.spare + self.stages(max_active, pdl) * self.chunk * self.step_bytes

    def microseconds(self) -> float:
        """A guess at the time without the launch, an H200's on every GPU: it decides how weights are packed."""
        worst_units = self.most_units(H200_CLUSTERS[self.splits])
        unit = self.steps * self.step_bytes / 1000
        even = self.units * self.splits * unit / H200_CLUSTERS[1] / SM_KB_PER_US
        worst = worst_units * unit / SM_KB_PER_US
        inputs = self.m * self.split_k * 2 / 1000 / 2 / SM_KB_PER_US
        return (even + worst) / 2 + inputs + (SPLIT_US if self.splits > 1 else 0) + UNIT_US * worst_units


def packing_of(config: TileConfig, gates: bool) -> str:
    """The name of the form that `kernels.gemm.skinny_call.pack_weight` gives a weight."""
    return f"streamed {config.layout} gates={gates}"


def _line(size: int) -> int:
    """Rounded up to 128 bytes."""
    return -(-size // 128) * 128


def can_schedule_dynamically(config: TileConfig, case: LinearCase) -> bool:
    """Whether units need nothing but weights and scales, an output a thread, and are not kept. Not for nvfp4: its
    scales are read so late that a slot of the ring might be filled again before.
    """
    alone = config.m == 1 and config.splits == 1 and not config.keep
    return alone and config.kind != "nvfp4" and not case.adds_bias and case.epilogue != "residual"


def weight_kind(case: LinearCase) -> str:
    """The loader's name for the case's weights."""
    return "same" if case.weights == case.dtype else case.weights


@cache
def configs(
    kind: str, m: int, rows: int, k: int, keep: bool = False, spare: int = 0, row_bytes: int = 0
) -> tuple[TileConfig, ...]:
    """Every tile config that fits into shared memory, the best guess first."""
    four_bit = kind not in ("same", "fp8", "int8")
    candidates = [
        TileConfig(kind, m, rows, k, splits, k_warps, row_tiles, warps, keep, spare, row_bytes)
        for splits in ((1,) if keep else (1, 2, 4))
        for warps in ((16, 8) if four_bit else (8,))
        for k_warps in (16, 8, 4, 2)
        for row_tiles in ((1, 2) if four_bit and m > 8 and warps == 8 else (1,))
        if k_warps <= warps
    ]
    fitting = (config for config in candidates if config.stages(H200_CLUSTERS[config.splits], False))
    return tuple(sorted(fitting, key=TileConfig.microseconds))
