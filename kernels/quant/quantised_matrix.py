"""Weights rounded to e4m3 or e2m1 with power-of-two scales, or to int8 or int4 in groups; and back as bf16.

Row and tensor scales of e4m3 and e2m1 are powers of two: code times scales then has at most 6 significant bits, so that
the values that a plan runs with are bf16 matrices like any other, and prompt, decode and reference can share them. In
e4m3, whose codes are floating-point, that costs nothing but range at the lower end. int8 codes times their scales have
up to 18 bits: a prompt multiplies by them rounded to bf16, a decode step by the exact values. So it is with a weight
that was stored in e4m3, whose scales may be any float32 numbers.
`absmax.py` rounds to the same codes with other scales.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kernels.quant import e2m1
from kernels.quant.formats import E4M3_MAX, FP8_LAYERS

E4M3_MIN_NORMAL, E2M1_MAX = 2.0**-6, 6.0
ROUNDED_UP = 1.001
"""How much a row's largest value over its scale may exceed E4M3_MAX by the rounding of a quotient."""
BLOCK = 16
"""Columns that share an e4m3 scale in nvfp4."""
GROUP = 32
"""Columns that share a float16 scale in int8 and int4, as in GGUF's Q8_0, Q4_0 and Q4_1."""
WIDE_GROUPS = 2, 4
"""Groups that share a scale and a zero point in int4_zero: at least, and where it is rounded here, as by AWQ."""
MIDDLE, MAX_CODE = 8, 15
"""The code of four bits that stands for 0 where there are no zero points, and the largest one."""
INT8_MAX, INT4_MAX = 127, 7
INT4_FULL = (-8.0, -9.0, -8.5, -7.5, -7.0, -6.5, 7.5, 7.0, 6.5)
"""Candidates for the code of a group's largest value, before it is rounded and clamped; that with the least error is
used. Q4_0 has the first one alone."""
STORED_SCALES, STORED_ZEROS, STORED_ROWS = STORED = "int8_scales", "int4_zeros", "fp8_scales"
"""The attributes of a weight that was stored as integers of up to 8 bits, and the files of a dequantised model that
hold them: its float16 scales [rows, columns / 32, rounded up], and zero points or minimums as `QuantisedMatrix.zeros`.
The last is that of a weight that was stored in e4m3: its float32 scales [rows].
"""
FRACTION, EXPONENT = (1 << 23) - 1, 0xFF << 23
"""The bits of a float32 below its exponent, and those of its exponent."""
ROWS_TOGETHER = 8192
"""Rows quantised at once, so that float32 copies stay small."""
FULL_SCALES = (8.0, 7.0, 6.5, 6.0, 5.5, 5.0, 4.5, 4.0, 3.5, 3.0)
"""Candidates for a block's scaled maximum; values above 6 are clamped. The least rounding error wins."""


@dataclass(frozen=True)
class QuantisedMatrix:
    """`codes` uint8 [rows, columns], of int8 and int4 as an int8; `row_scales` float32 [rows].

    `block_scales` are uint8 [rows, columns / 16] for nvfp4 (e4m3 codes, all of normal numbers), and float16 [rows,
    columns / 32, rounded up] for int8 and int4. `zeros` are as many: zero points int8, where a value is (code - zero) ·
    scale, or minimums float16, where it is code · scale + minimum; codes are 0 to 15 then.
    """

    codes: Tensor
    row_scales: Tensor
    block_scales: Tensor | None = None
    zeros: Tensor | None = None

    def _with_scales(self, cut: Callable[[Tensor], Tensor]) -> tuple[Tensor | None, Tensor | None]:
        """Scales of blocks and zeros, cut alike."""
        blocks, zeros = self.block_scales, self.zeros
        return None if blocks is None else cut(blocks), None if zeros is None else cut(zeros)

    @property
    def block(self) -> int:
        """Columns that share a scale of `block_scales`."""
        return GROUP if self.block_scales is not None and self.block_scales.dtype == torch.float16 else BLOCK

    def rows(self, chosen: Tensor | slice) -> "QuantisedMatrix":
        """The matrix of the `chosen` rows [n] int64, in their order, or of a slice of them, without a copy."""
        return QuantisedMatrix(
            self.codes[chosen], self.row_scales[chosen], *self._with_scales(lambda scales: scales[chosen])
        )

    def columns(self, first: int, count: int) -> "QuantisedMatrix":
        """Columns [first, first + count) of the matrix. Raises ValueError where `first` begins no block of scales."""
        if self.block_scales is not None and first % self.block:
            raise ValueError(f"columns: {first} lies within {self.block} columns that share a scale")
        last = -(-(first + count) // self.block)
        own = self._with_scales(lambda scales: scales[:, first // self.block : last])
        return QuantisedMatrix(self.codes[:, first : first + count], self.row_scales, *own)

    def to(self, device: torch.device) -> "QuantisedMatrix":
        """The weight on another device."""
        own = self._with_scales(lambda scales: scales.to(device))
        return QuantisedMatrix(self.codes.to(device), self.row_scales.to(device), *own)

    def values(self, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        """The matrix in `dtype` [rows, columns]; bf16 rounds integers, and e4m3 without powers of two, once more."""
        out = torch.empty(self.codes.shape, dtype=dtype, device=self.codes.device)
        for rows in _groups(len(out)):
            codes, scale = self.codes[rows], self.row_scales[rows, None]
            if self.block_scales is None:
                out[rows] = (codes.view(torch.float8_e4m3fn).float() * scale).to(dtype)
                continue
            blocks, full_groups = self.block_scales[rows], self.block == GROUP
            scales = (
                (blocks if full_groups else blocks.view(torch.float8_e4m3fn))
                .float()
                .repeat_interleave(self.block, dim=1)
            )
            wide = codes.view(torch.int8).float() if full_groups else e2m1.values(codes)
            scales = scales[:, : codes.shape[1]]
            added: torch.Tensor | float = 0.0
            if self.zeros is not None:
                zeros = self.zeros[rows].float().repeat_interleave(self.block, dim=1)[:, : codes.shape[1]]
                wide, added = (wide, zeros) if self.zeros.is_floating_point() else (wide - zeros, 0.0)
            out[rows] = (wide * scales * scale + added).to(dtype)
        return out


def _groups(rows: int) -> list[slice]:
    return [slice(begin, begin + ROWS_TOGETHER) for begin in range(0, rows, ROWS_TOGETHER)]


def power_of_two(x: Tensor) -> Tensor:
    """The least power of two not under x, float32, by a carry into the exponent; at least 2⁻¹²⁶, and 1 of 0."""
    bits = (x.float().contiguous().view(torch.int32) + FRACTION) & EXPONENT
    return torch.where(x > 0, bits.view(torch.float32), 1.0)


@torch.no_grad()
def fp8_rows(weight: Tensor, largest: Tensor | None = None) -> QuantisedMatrix:
    """e4m3 with a scale per row, for a matrix [rows, columns]: those that the weight was stored with, else powers of
    two. `largest` [rows] are the magnitudes that its rows reach where these are its part of the columns only. Raises
    ValueError when a weight is not finite, and when it is larger than `largest`.
    """
    check_finite(weight, "fp8")
    if (scales := stored_row_scales([weight])) is None:
        scales = power_of_two((weight.abs().amax(dim=1) if largest is None else largest).float() / E4M3_MAX)
        fits = weight.abs().amax(dim=1).float() <= scales * (E4M3_MAX * ROUNDED_UP)
        if not bool(fits.all()):
            raise ValueError(f"weight: the scales on {weight.device} are smaller than its rows need")
    codes = torch.empty(weight.shape, dtype=torch.uint8, device=weight.device)
    for rows in _groups(len(weight)):
        unit = scales[rows, None]
        codes[rows] = torch.where(unit != 0, weight[rows].float() / unit, 0).to(torch.float8_e4m3fn).view(torch.uint8)
    return QuantisedMatrix(codes, scales)


@torch.no_grad()
def nvfp4_power_of_two(weight: Tensor, largest: Tensor | None = None) -> QuantisedMatrix:
    """e2m1 with an e4m3 scale per 16 columns and a power of two per matrix, for [rows, columns] bf16 or float32.

    `largest` is the magnitude that the matrix reaches where this is a part of it only. Raises ValueError when a weight
    is not finite or the columns are no multiple of 16.
    """
    check_finite(weight, "nvfp4")
    if weight.shape[1] % BLOCK:
        raise ValueError(f"weight: {weight.shape[1]} columns are no multiple of {BLOCK}, the block of nvfp4")
    tensor = power_of_two((weight.abs().amax() if largest is None else largest).float() / (E4M3_MAX * E2M1_MAX))
    codes = torch.empty(weight.shape, dtype=torch.uint8, device=weight.device)
    scales = torch.empty(len(weight), weight.shape[1] // BLOCK, dtype=torch.uint8, device=weight.device)
    for rows in _groups(len(weight)):
        blocks = (weight[rows].float() / tensor).unflatten(1, (-1, BLOCK))
        codes[rows], scales[rows] = best_blocks(blocks)
    return QuantisedMatrix(codes, tensor.expand(len(weight)).contiguous(), scales)


def best_blocks(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Codes [rows, columns] and scales [rows, n] of blocks [rows, n, 16]: those that round best."""
    tried = [_block_scale(blocks, full) for full in FULL_SCALES]
    rounded = [e2m1.codes(blocks / scale.float()[..., None]) for scale in tried]
    errors = [
        (e2m1.values(codes) * scale.float()[..., None] - blocks).square().sum(-1)
        for codes, scale in zip(rounded, tried, strict=True)
    ]
    codes, scales, least = rounded[0], tried[0].view(torch.uint8), errors[0]
    for other, scale, error in zip(rounded[1:], tried[1:], errors[1:], strict=True):
        better = error < least
        codes = torch.where(better[..., None], other, codes)
        scales = torch.where(better, scale.view(torch.uint8), scales)
        least = torch.minimum(error, least)
    return codes.flatten(1), scales


def _block_scale(blocks: Tensor, full: float) -> Tensor:
    """e4m3 scales of blocks [rows, n, 16] that bring the largest of each near `full`; never a subnormal number."""
    wanted = (blocks.abs().amax(-1) / full).clamp(E4M3_MIN_NORMAL, E4M3_MAX)
    return wanted.to(torch.float8_e4m3fn)


def is_finite(weight: Tensor) -> bool:
    """Whether all values are numbers, in one pass."""
    return not weight.numel() or all(bool(torch.isfinite(value)) for value in weight.aminmax())


def check_finite(weight: Tensor, name: str) -> None:
    if not is_finite(weight):
        raise ValueError(f"weight: it holds numbers that are not finite, which {name} cannot round")


def stored_groups(weights: Sequence[Tensor]) -> tuple[Tensor, Tensor | None] | None:
    """Scales and zeros of weights that lie one below the other, on their device: STORED_SCALES and STORED_ZEROS. Those
    without zero points have MIDDLE. None unless all were stored in groups, and all or none of them with minimums.
    """
    scales: list[Any] = [getattr(weight, STORED_SCALES, None) for weight in weights]
    zeros: list[Any] = [getattr(weight, STORED_ZEROS, None) for weight in weights]
    minimums = {zero is not None and zero.is_floating_point() for zero in zeros}
    if not weights or any(scale is None for scale in scales) or len(minimums) > 1:
        return None
    own = torch.cat([scale.to(weight.device) for scale, weight in zip(scales, weights, strict=True)])
    if all(zero is None for zero in zeros):
        return own, None
    middles = [torch.full(scale.shape, MIDDLE, dtype=torch.int8) for scale in scales]
    parts = [middle if zero is None else zero for zero, middle in zip(zeros, middles, strict=True)]
    return own, torch.cat([part.to(own.device) for part in parts])


def stored_row_scales(weights: Sequence[Tensor]) -> Tensor | None:
    """The STORED_ROWS of weights that lie one below the other, on their device; None unless all were stored so."""
    scales: list[Any] = [getattr(weight, STORED_ROWS, None) for weight in weights]
    if not weights or any(scale is None for scale in scales):
        return None
    return torch.cat([scale.to(weight.device) for scale, weight in zip(scales, weights, strict=True)])


def multiples(weight: Tensor) -> Tensor | None:
    """The stored scales of a weight whose values are integers times them; else None."""
    stored = stored_groups([weight])
    return None if stored is None or (stored[1] is not None and stored[1].is_floating_point()) else stored[0]


def stored_form(weights: str, matrices: Iterable[Tensor]) -> str:
    """The form of int4 that most matrices were stored in, of INT4. Other precisions as they are."""
    if weights != "int4":
        return weights
    zeros = [getattr(matrix, STORED_ZEROS, None) for matrix in matrices]
    names = ["int4" if zero is None else "int4_minimum" if zero.is_floating_point() else "int4_zero" for zero in zeros]
    return max(dict.fromkeys(names), key=names.count, default="int4")


@torch.no_grad()
def int8_groups(weight: Tensor) -> QuantisedMatrix:
    """int8 with a float16 scale per 32 columns, rounded up so that no code is cut off; stored int8 keeps scales and
    codes. The last group may be short. Raises ValueError where not finite or too large for float16.
    """

    def scaled(groups: Tensor) -> Tensor:
        wanted = groups.abs().amax(-1) / INT8_MAX
        nearest = wanted.half()
        above = (nearest.view(torch.int16) + 1).view(torch.float16)
        return torch.where(nearest.float() < wanted, above, nearest)

    return _integers(weight, "int8", INT8_MAX, scaled)


@torch.no_grad()
def int4_groups(weight: Tensor) -> QuantisedMatrix:
    """int4, -8 to 7, with a float16 scale per 32 columns, of INT4_FULL's candidates the one that rounds best; stored
    codes and scales are kept. The last group may be short. Raises ValueError as `int8_groups`.
    """
    if multiples(weight) is not None:
        wide = int8_groups(weight)
        if in_range(wide.codes.view(torch.int8) + MIDDLE):
            return wide
    return _integers(weight, "int4", INT4_MAX, int4_scales, stored=False)


@torch.no_grad()
def int4_zero(weight: Tensor) -> QuantisedMatrix:
    """int4, 0 to 15, with a float16 scale and a zero point for 128 columns; codes stored in groups of a multiple of 64
    columns are kept with both. Raises ValueError as `int8_groups`.
    """
    columns, stored = weight.shape[1], stored_groups([weight])
    if stored is not None and multiples(weight) is not None:
        scales, zeros = stored
        zeros = torch.full(scales.shape, MIDDLE, dtype=torch.int8, device=weight.device) if zeros is None else zeros
        wide = int8_groups(weight)
        zero = torch.where(scales == 0, 0, zeros).repeat_interleave(GROUP, dim=1)[:, :columns]
        codes = wide.codes.view(torch.int8) + zero
        if in_pairs(scales) and in_pairs(zeros) and in_range(codes):
            return QuantisedMatrix(codes.view(torch.uint8), wide.row_scales, scales, zeros)

    def rounded(groups: Tensor) -> tuple[Tensor, Tensor]:
        least, most = _reached(groups, WIDE_GROUPS[1])
        scales = ((most.clamp(min=0) - least.clamp(max=0)) / MAX_CODE).half()
        zeros = torch.where(scales > 0, -least.clamp(max=0) / scales.float(), 0).round().clamp(0, MAX_CODE)
        return scales, zeros.to(torch.int8)

    return _with_zeros(weight, "int4", rounded)


@torch.no_grad()
def int4_minimum(weight: Tensor) -> QuantisedMatrix:
    """int4, 0 to 15, with float16 scale and minimum for 32 columns, as GGUF's Q4_1. Raises as `int8_groups`."""
    stored = stored_groups([weight]) if multiples(weight) is None else None

    def rounded(groups: Tensor) -> tuple[Tensor, Tensor]:
        least, most = _reached(groups, 1)
        return ((most - least) / MAX_CODE).half(), least.half()

    return _with_zeros(weight, "int4", rounded, stored)


def _reached(groups: Tensor, wide: int) -> tuple[Tensor, Tensor]:
    """The least and the largest value of groups [rows, n, 32], of every `wide` neighbours alike."""
    most = torch.nn.functional.pad(groups.amax(-1), (0, -groups.shape[1] % wide), value=-torch.inf)
    least = torch.nn.functional.pad(groups.amin(-1), (0, -groups.shape[1] % wide), value=torch.inf)
    both = least.unflatten(1, (-1, wide)).amin(-1), most.unflatten(1, (-1, wide)).amax(-1)
    least, most = (item.repeat_interleave(wide, dim=1)[:, : groups.shape[1]] for item in both)
    return least, most


def in_pairs(groups: Tensor) -> bool:
    """Whether every two neighbours of [rows, groups] are alike; the last one may be alone."""
    even = groups[:, : groups.shape[1] // 2 * 2]
    return torch.equal(even[:, ::2], even[:, 1::2])


def in_range(codes: Tensor) -> bool:
    """Whether all codes are 0 to 15."""
    return bool(((codes >= 0) & (codes <= MAX_CODE)).all())


def _with_zeros(
    weight: Tensor,
    name: str,
    rounded: Callable[[Tensor], tuple[Tensor, Tensor]],
    stored: tuple[Tensor, Tensor | None] | None = None,
) -> QuantisedMatrix:
    """Codes 0 to 15 with the `stored` scales and zeros [rows, n], or with those `rounded` for groups [rows, n, 32]."""
    check_finite(weight, name)
    columns, scales_and_zeros = weight.shape[1], []
    own_scales, own_zeros = stored or (None, None)
    codes = torch.empty(weight.shape, dtype=torch.uint8, device=weight.device)
    for rows in _groups(len(weight)):
        groups = torch.nn.functional.pad(weight[rows].float(), (0, -columns % GROUP)).unflatten(1, (-1, GROUP))
        scales, zeros = (
            rounded(groups) if own_scales is None or own_zeros is None else (own_scales[rows], own_zeros[rows])
        )
        unit, zero = scales.float()[..., None], zeros.float()[..., None]
        lifted = (groups - zero) / unit if zeros.is_floating_point() else groups / unit + zero
        exact = torch.where(unit != 0, lifted, 0).round().clamp(0, MAX_CODE)
        codes[rows] = exact.flatten(1)[:, :columns].to(torch.uint8)
        scales_and_zeros.append((scales, zeros))
    scales, zeros = (torch.cat(item) for item in zip(*scales_and_zeros, strict=True))
    if not bool(torch.isfinite(scales).all() & torch.isfinite(zeros).all()):
        raise ValueError(f"weight: it holds numbers that are too large for {name} with a float16 scale")
    return QuantisedMatrix(codes, torch.ones(len(weight), device=weight.device), scales, zeros)


def int4_scales(groups: Tensor) -> Tensor:
    """float16 scales [rows, n] of groups [rows, n, 32]: those that round best."""
    largest = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))[..., 0]
    best, least = (largest / INT4_FULL[0]).half(), torch.full_like(largest, torch.inf)
    for full in INT4_FULL:
        scale = (largest / full).half()
        error = (int_codes(groups, scale, INT4_MAX) * scale.float()[..., None] - groups).square().sum(-1)
        best, least = torch.where(error < least, scale, best), torch.minimum(error, least)
    return best


def int_codes(groups: Tensor, scales: Tensor, most: int) -> Tensor:
    """Integers -`most` - 1 to `most`, float32, nearest to groups [..., n, 32] over scales; 0 where a scale is."""
    unit = scales.float()[..., None]
    return torch.where(unit != 0, groups / unit, 0).round().clamp(-most - 1, most)


def _integers(
    weight: Tensor, name: str, most: int, scaled: Callable[[Tensor], Tensor], stored: bool = True
) -> QuantisedMatrix:
    """Integers up to `most` in groups of 32 with the weight's `stored` scales, or those of `scaled` [rows, n]."""
    check_finite(weight, name)
    columns, known = weight.shape[1], multiples(weight) if stored else None
    codes = torch.empty(weight.shape, dtype=torch.uint8, device=weight.device)
    scales = torch.empty(len(weight), -(-columns // GROUP), dtype=torch.float16, device=weight.device)
    for rows in _groups(len(weight)):
        groups = torch.nn.functional.pad(weight[rows].float(), (0, -columns % GROUP)).unflatten(1, (-1, GROUP))
        scales[rows] = scaled(groups) if known is None else known[rows]
        signed = int_codes(groups, scales[rows], most).to(torch.int8)
        codes[rows] = signed.flatten(1)[:, :columns].view(torch.uint8)
    if not bool(torch.isfinite(scales).all()):
        raise ValueError(f"weight: it holds numbers that are too large for {name} with a float16 scale")
    return QuantisedMatrix(codes, torch.ones(len(weight), device=weight.device), scales)


QUANTISERS: dict[str, Callable[..., QuantisedMatrix]] = {
    "int8": int8_groups,
    "int4": int4_groups,
    "int4_zero": int4_zero,
    "int4_minimum": int4_minimum,
    "fp8": fp8_rows,
    FP8_LAYERS: fp8_rows,
    "nvfp4": nvfp4_power_of_two,
}


def quantised_shards(parts: Sequence[Tensor], weights: str, columns: bool) -> list[QuantisedMatrix]:
    """The parts of one matrix, columns or rows, each on its device, as the whole is rounded. Groups of int8 and int4
    begin with a part: columns must be multiples of 32. Raises ValueError as the functions above.
    """
    quantise, largest = QUANTISERS[weights], None
    if weights == "nvfp4" or (quantise is fp8_rows and columns):
        reached = [part.abs().amax() if weights == "nvfp4" else part.abs().amax(dim=1) for part in parts]
        largest = torch.stack([part.to(reached[0].device) for part in reached]).amax(dim=0)
    quantised = []
    for part in parts:
        with torch.cuda.device_of(part):
            quantised.append(quantise(part) if largest is None else quantise(part, largest.to(part.device)))
    return quantised


def rounded(weight: Tensor, weights: str, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """The values a precision's weights have, in `dtype`: those of `weight` in bf16 where `weights` is bf16."""
    return weight.to(torch.bfloat16).to(dtype) if weights == "bf16" else QUANTISERS[weights](weight).values(dtype)
