"""A unit of the stream as its matrix: the inverse of what `pack` does. Imports without torch."""

import numpy as np
from numpy.typing import NDArray

from kernels.megakernel.program.weights import CODES_BYTES, GROUP_TILES, Bytes, Format, nvfp4_codes
from kernels.quant.formats import E2M1

Floats = NDArray[np.float32]


def e4m3_values(codes: Bytes) -> Floats:
    """float32 values of e4m3 codes; 0x7f and 0xff, which are NaN, are never packed."""
    exponent, mantissa = (codes >> 3 & 15).astype(np.int32), (codes & 7).astype(np.float32)
    normal = np.ldexp(1 + mantissa / 8, exponent - 7)
    magnitudes = np.where(exponent > 0, normal, mantissa / 8 * 2.0**-6)
    return np.where(codes >> 7 == 1, -magnitudes, magnitudes).astype(np.float32)


def e2m1_values(codes: Bytes) -> Floats:
    """float32 values of 4-bit codes."""
    return np.where(codes >> 3 == 1, -1, 1).astype(np.float32) * np.array(E2M1, dtype=np.float32)[codes & 7]


def matrix_of_unit(stream: Bytes, k_tiles: int, form: Format) -> Floats:
    """A unit's bytes as its matrix [16, k_tiles * 16] float32."""
    parts, at = [], 0
    for first in range(0, k_tiles, form.chunk_tiles):
        blocks = -(-min(form.chunk_tiles, k_tiles - first) // form.tiles)
        size = form.header + blocks * form.block_bytes
        chunk = stream[at : at + size]
        at += size
        body = chunk[form.header :].reshape(blocks, form.block_bytes)
        values = _values(body[:, :CODES_BYTES].copy().view("<u4").reshape(blocks, 32, 4), form)
        scales = body[:, CODES_BYTES:].copy()
        if form.integers:  # [block and group, g, scale and zero, row half]
            wide, numbers = form.scaled // GROUP_TILES, scales.view("<f2").reshape(-1, 8, 1 + bool(form.zeros), 2)
            by = [
                number.reshape(-1, 8, 1, 1, 2, 1).astype(np.float32).repeat(wide, axis=0)
                for number in np.moveaxis(numbers, 2, 0)
            ]
            values = _with_zeros(values.reshape(-1, 8, 8, 2, 2, 2), form, *by)
        elif form.read_in_place:  # exponents [block, g, pair of tiles, row half]
            by_pair = np.ldexp(np.float32(1), scales.astype(np.int32) - 127).reshape(blocks, 8, 2, 1, 1, 2, 1)
            values = values.reshape(blocks, 8, 4, 4, 2, 2, 2) * by_pair.repeat(2, axis=2)
        elif form.block_scales:  # [block, g, tile, row half]: lane 4g + t holds rows g and g + 8 of tile t
            values = values.reshape(blocks, 8, 4, 4, 2, 2, 2) * e4m3_values(scales).reshape(blocks, 8, 4, 1, 1, 2, 1)
        matrix = _rows(values.reshape(blocks, -1), GROUP_TILES if form.integers else form.tiles)
        if form.header:
            matrix = matrix * chunk[: form.header].copy().view("<f4")[:, None]
        parts.append(matrix)
    return np.concatenate(parts, axis=1)[:, : k_tiles * 16]


def _with_zeros(codes: Floats, form: Format, scales: Floats, zeros: Floats | None = None) -> Floats:
    """The values of codes, which lie less 8 where there are zero points or minimums."""
    if zeros is None:
        return codes * scales
    return (codes + 8 - zeros) * scales if form.zeros == "zero" else (codes + 8) * scales + zeros


def _values(words: NDArray[np.uint32], form: Format) -> Floats:
    """Blocks of words [blocks, lanes, 4] as the values of their codes [blocks, lanes, products, 8]; of integers those
    of their groups [groups, lanes, 2, 8].
    """
    blocks = len(words)
    if form.bits == 16:
        return (words.view("<u2").astype(np.uint32) << 16).view(np.float32).reshape(blocks, 32, 1, 8)
    if form.integers:
        codes = words.view(np.int8)
        if form.bits == 4:  # group, row half, byte: a byte has a code of each product, the first in its low half
            codes = np.stack((codes << 4, codes), axis=2).reshape(blocks, 32, 2, 2, 2, 4) >> 4
            codes = codes.transpose(0, 3, 1, 2, 4, 5)
        by_row = codes.astype(np.float32).reshape(-1, 32, 2, 2, 2, 2)
        return by_row.swapaxes(3, 4).reshape(-1, 32, 2, 8)  # product, column half, row half, pair
    if form.bits == 8:
        return e4m3_values(words.view(np.uint8)).reshape(blocks, 32, 2, 8)
    return e2m1_values(nvfp4_codes(words)).reshape(blocks, 32, 4, 8)


def _rows(values: Floats, n: int) -> Floats:
    """Values of blocks of n tiles as rows [16, blocks * n * 16]."""
    # block, g, tile, quarter, product, column half, row half, pair; lane 4g + t is tile and quarter together
    lanes = values.reshape(-1, 8, n, 4 // n, n, 2, 2, 2)
    ordered = lanes.transpose(6, 1, 0, 2, 5, 3, 4, 7)  # row half, g, block, tile, column half, quarter, product, pair
    return np.ascontiguousarray(ordered).reshape(16, -1)
