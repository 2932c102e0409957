"""The layout of a product's weights in the stream, in each precision. Imports without torch.

A *unit* is 16 rows of a matrix times some tiles of 16 columns. It streams as chunks of 32 *blocks* (or 24) at most. A
block is 512 bytes, 16 a lane: as many tiles as these hold (1 in bf16, 2 of 8 bits, 4 of 4 bits), arranged so that
each lane needs consecutive elements of the input. A chunk of fp8 or nvfp4 begins with one float32 scale per row; a
block of nvfp4 ends with the e4m3 scales of its tiles, one of int8 or int4 with a float16 scale per row for each 32
columns, a *group*, or for each 64; with zero points or minimums, in float16 too, behind the scales of each two rows.
Experts in MXFP4 lie in blocks as those of nvfp4, with an exponent (e8m0) per row for each 32 columns behind.
`pack.py` writes this, `weights.cuh` and `integers.cuh` read it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.quant.formats import FP8_LAYERS, dense_precision
from kernels.quant.gf2 import gf2_inverse

Bytes = NDArray[np.uint8]

CHUNK_BLOCKS, SHORT_CHUNK_BLOCKS = 32, 24
GROUP_TILES = 2
"""Tiles of a group, the columns that share a scale in int8 and int4, and in all integers a unit of the input."""
ZEROS = ("", "zero", "minimum")
"""What integers have beside scales: in the order of the macro ZEROS."""
CODES_BYTES = 512
"""Bytes of a block's codes: 16 for each lane of a warp."""
ROW_SCALES = 16
ALIGNMENT = 128
"""Each slot of the ring, and each SM's stream, begins at a multiple of so many bytes."""


@dataclass(frozen=True)
class Format:
    """One precision of the weights: `bits` of a code, bytes of scales before a chunk and behind a block, and the most
    blocks of a chunk. Of integers `zeros` is one of ZEROS, and `scaled` the tiles that share a scale. `read_in_place`:
    units are of whole rows, and any blocks of theirs may be read.
    """

    name: str
    bits: int
    header: int
    block_scales: int
    chunk_blocks: int = CHUNK_BLOCKS
    zeros: str = ""
    scaled: int = 0
    read_in_place: bool = False

    @property
    def tiles(self) -> int:
        """Tiles of 16 columns in a block."""
        return 16 // self.bits

    @property
    def integers(self) -> bool:
        """Whether codes are integers."""
        return self.scaled > 0

    @property
    def unit_words(self) -> int:
        """Words of a group's input behind its elements: of integers its unit, and beside zeros the elements' sum."""
        return (2 if self.zeros else 1) if self.integers else 0

    @property
    def together(self) -> int:
        """Column tiles that a unit may not begin within: those that share a scale, or a block."""
        return self.tiles if self.read_in_place else self.scaled or 1

    @property
    def block_bytes(self) -> int:
        return CODES_BYTES + self.block_scales

    @property
    def weight_bytes(self) -> float:
        """Bytes of a weight, with the scales of its block."""
        return self.block_bytes / (self.tiles * 16 * ROW_SCALES)

    @property
    def chunk_tiles(self) -> int:
        """Tiles in a whole chunk."""
        return self.chunk_blocks * self.tiles

    @property
    def slot_bytes(self) -> int:
        """A slot of the ring: a whole chunk, aligned."""
        return -(-(self.header + self.chunk_blocks * self.block_bytes) // ALIGNMENT) * ALIGNMENT

    def chunks(self, k_tiles: int) -> int:
        """Chunks of a unit of `k_tiles` column tiles."""
        return -(-k_tiles // self.chunk_tiles)

    def unit_bytes(self, k_tiles: int) -> int:
        """Bytes of a unit in the stream; a block that is not full is padded."""
        return self.chunks(k_tiles) * self.header + -(-k_tiles // self.tiles) * self.block_bytes


FORMATS = {
    form.name: form
    for form in (
        Format("bf16", 16, header=0, block_scales=0),
        Format("int8", 8, header=0, block_scales=2 * ROW_SCALES, scaled=GROUP_TILES),
        Format("fp8", 8, header=4 * ROW_SCALES, block_scales=0),
        Format(FP8_LAYERS, 8, header=4 * ROW_SCALES, block_scales=0),
        Format("nvfp4", 4, header=4 * ROW_SCALES, block_scales=64),
        Format("int4", 4, header=0, block_scales=2 * 2 * ROW_SCALES, scaled=GROUP_TILES),
        Format("int4_zero", 4, header=0, block_scales=2 * 2 * ROW_SCALES, zeros="zero", scaled=2 * GROUP_TILES),
        Format("int4_minimum", 4, header=0, block_scales=2 * 2 * 2 * ROW_SCALES, zeros="minimum", scaled=GROUP_TILES),
    )
}
"""int8 and int4 have a scale per 32 columns of a row, int4_minimum a minimum beside it as GGUF's Q4_1; int4_zero has a
scale and a zero point per 64, for groups of 64 or 128 as AWQ's; fp8 is e4m3 with a scale per row, fp8_layers
the same with the LM head in bf16; nvfp4 is e2m1 with an
e4m3 scale per 16 columns and a float scale per matrix."""


MXFP4 = Format("mxfp4", 4, header=0, block_scales=2 * ROW_SCALES, read_in_place=True)
"""The format of experts, e2m1 with a power of two per 32 columns; other matrices are bf16 then."""

PRECISIONS = (*FORMATS, MXFP4.name)
"""The precisions of a launch."""


def format_of_dense(weights: str) -> Format:
    """The format of a model's matrices beside experts. Raises ValueError as `format_of`."""
    return format_of(dense_precision(weights) or "bf16")


def format_of(name: str) -> Format:
    """The format of that name. Raises ValueError that lists the known precisions."""
    if name not in FORMATS:
        raise ValueError(f"weights: {name!r} is not one of {', '.join(FORMATS)}")
    return FORMATS[name]


def fitting_chunk(name: str, k_tiles: int) -> int:
    """Blocks of a chunk of a precision; those of 8 bits have shorter ones where units of `k_tiles` fill all."""
    form = format_of_dense(name)
    blocks = k_tiles / form.tiles
    short = form.bits == 8 and blocks % SHORT_CHUNK_BLOCKS == 0 and blocks % CHUNK_BLOCKS
    return SHORT_CHUNK_BLOCKS if short else CHUNK_BLOCKS


NVFP4_BITS = 0x81C081C0
"""The bits of a pair of bf16 that hold two codes: signs, lowest exponent bits and highest mantissa bits."""
NVFP4_PLACES = ((15, 3), (8, 2), (7, 1), (6, 0))
"""Places of these bits: in a bf16, and in the code that it stands for."""


def nvfp4_registers(word: NDArray[np.uint32]) -> list[NDArray[np.uint32]]:
    """The four pairs of bf16 that the kernel makes of a word's eight codes: linear in its bits, and invertible."""
    rotated = word << np.uint32(6) | word >> np.uint32(26)
    mixed = (word, word << np.uint32(4), rotated << np.uint32(4), rotated ^ rotated << np.uint32(8))
    return [word & np.uint32(NVFP4_BITS) for word in mixed]


def nvfp4_codes(words: NDArray[np.uint32]) -> Bytes:
    """The eight codes of each word [..., 8], in the order of the matrix unit's registers, low half first."""
    pairs = np.stack(nvfp4_registers(words), axis=-1)
    halves = np.stack([pairs & 0xFFFF, pairs >> 16], axis=-1).reshape(*words.shape, 8)
    codes = np.zeros(halves.shape, dtype=np.uint8)
    for shift, bit in NVFP4_PLACES:
        codes |= (halves >> shift & 1).astype(np.uint8) << bit
    return codes


def nvfp4_mix() -> list[int]:
    """What each bit of eight codes, the first code's lowest first, adds (exclusive or) to their word: 32 words."""

    def codes(word: int) -> int:
        return sum(int(code) << 4 * i for i, code in enumerate(nvfp4_codes(np.array([word], dtype=np.uint32))[0]))

    return gf2_inverse(codes)
