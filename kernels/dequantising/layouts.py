"""The values of quantised weights, by the layout that their tensors have."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from kernels.model_files.quantised import Scheme
from kernels.model_files.stored_weights import NVFP4_GROUP, WORD, block_of, scale_shape
from kernels.quant.quantised_matrix import (
    GROUP,
    MIDDLE,
    STORED,
    STORED_ROWS,
    STORED_SCALES,
    STORED_ZEROS,
    fp8_rows,
    in_pairs,
    in_range,
    int4_minimum,
    int8_groups,
    is_finite,
)

Parts = Mapping[str, Tensor]
AWQ_PLACES = {4: (0, 4, 1, 5, 2, 6, 3, 7), 8: (0, 2, 1, 3)}
"""Where the weights of one word lie in it, by their bits."""
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
NO_NUMBER, BIAS = 255, 127
"""Of MXFP4's scales, which are powers of two."""


class WrongParts(Exception):
    """Why the values of the tensors do not fit together, as a sentence."""


BLOCK_ROWS = 64
"""Rows that are converted at once: what is computed of them stays in the caches of a processor's core."""


class Grouped(NamedTuple):
    """A weight as `codes` [outputs, inputs], less their zero points, and `scales` [outputs, groups] float32; `groups`
    [inputs] names the group of each input. `zeros` [outputs, groups] are the zero points, if any.
    """

    codes: Tensor
    scales: Tensor
    groups: Tensor
    zeros: Tensor | None = None

    def values(self) -> Tensor:
        return self.codes * expand_groups(self.scales, self.groups)

    def blocks(self) -> Iterator[tuple[slice, "Grouped"]]:
        """BLOCK_ROWS rows after BLOCK_ROWS rows."""
        for begin in range(0, len(self.codes), BLOCK_ROWS):
            rows = slice(begin, begin + BLOCK_ROWS)
            zeros = None if self.zeros is None else self.zeros[rows]
            yield rows, Grouped(self.codes[rows], self.scales[rows], self.groups, zeros)


def expand_groups(table: Tensor, groups: Tensor) -> Tensor:
    """A table [outputs, groups] as [outputs, inputs]: that of each input's group."""
    wide = len(groups) // table.shape[1]
    if torch.equal(groups, torch.arange(table.shape[1]).repeat_interleave(wide)):
        return table[:, :, None].expand(-1, -1, wide).flatten(1)  # several times faster than by index
    return table[:, groups]


def stored(layout: str, parts: Parts, scheme: Scheme) -> Tensor | Grouped:
    """The weight as the model has it, or what it is made of. Raises WrongParts."""
    return LAYOUTS[layout](parts, scheme)


def dequantise(weight: Tensor | Grouped) -> Tensor:
    """The values of a weight in bf16."""
    if not isinstance(weight, Grouped):
        return weight.bfloat16()
    values = torch.empty(weight.codes.shape, dtype=torch.bfloat16)
    for rows, block in weight.blocks():
        values[rows] = block.values()
    return values


def _gptq(parts: Parts, scheme: Scheme) -> Grouped:
    codes = _unpacked(parts["qweight"].T.contiguous(), scheme.bits, 1)
    scales, outputs = parts["scales"].float().T, parts["scales"].shape[1]
    zeros = _unpacked(parts["qzeros"], scheme.bits, 1)[:, :outputs].T + scheme.zero_offset
    groups = _groups(parts, codes.shape[1], scales.shape[1], scheme)
    return _less_zeros(codes, scales, groups, zeros)


def _awq(parts: Parts, scheme: Scheme) -> Grouped:
    outputs, order = parts["scales"].shape[1], AWQ_PLACES[scheme.bits]
    words = (parts[part].T.contiguous() for part in ("qweight", "qzeros"))
    codes, zeros = (_unpacked(word, scheme.bits, 0, order)[:outputs] for word in words)
    groups = _groups(parts, codes.shape[1], zeros.shape[1], scheme)
    return _less_zeros(codes, parts["scales"].float().T, groups, zeros)


def _less_zeros(codes: Tensor, scales: Tensor, groups: Tensor, zeros: Tensor) -> Grouped:
    """The weight of codes that are stored with their zero points; they are changed in place."""
    scales, zeros = scales.contiguous(), zeros.contiguous()
    for _, block in Grouped(codes, scales, groups, zeros).blocks():
        assert block.zeros is not None
        block.codes.sub_(expand_groups(block.zeros, groups))
    return Grouped(codes, scales, groups, zeros)


def _groups(parts: Parts, inputs: int, groups: int, scheme: Scheme) -> Tensor:
    """The group of each input."""
    if "g_idx" in parts:
        return _checked(parts["g_idx"], groups)
    return torch.arange(inputs) // (scheme.group or inputs)


def _checked(numbers: Tensor, groups: int) -> Tensor:
    if not ((numbers >= 0) & (numbers < groups)).all():
        raise WrongParts(f"an input is of none of the {groups} groups")
    return numbers.long()


def _packed(parts: Parts, scheme: Scheme) -> Grouped:
    middle = 1 << scheme.bits - 1
    codes = _unpacked(parts["packed"], scheme.bits, 1) - middle
    if "shape" in parts and parts["shape"].tolist() != list(codes.shape):
        raise WrongParts(f"its shape is {parts['shape'].tolist()[:4]}, but {list(codes.shape)} are stored")
    if (zero := parts.get("zero")) is not None and zero.dtype == torch.int32:
        rows, groups = scale_shape(tuple(parts["scale"].shape), len(codes))
        zero = _unpacked(zero.reshape(-1, groups), scheme.bits, 0)[:rows] - middle
    quantised = _with_scales(codes, parts["scale"], zero, parts.get("g_idx"), scheme)
    return quantised if quantised.zeros is None else quantised._replace(zeros=quantised.zeros + middle)


def _scaled(parts: Parts, scheme: Scheme) -> Grouped:
    codes = parts["plain"].short() if parts["plain"].dtype == torch.int8 else parts["plain"].float()
    return _with_scales(codes, parts["scale"], parts.get("zero"), None, scheme)


def _with_scales(codes: Tensor, scale: Tensor, zero: Tensor | None, order: Tensor | None, scheme: Scheme) -> Grouped:
    """The codes, less their zero points, with their scales, which are one number or a table."""
    outputs, inputs = codes.shape
    rows, groups = scale_shape(tuple(scale.shape), outputs)
    high, wide = block_of(rows, groups, (outputs, inputs), scheme)
    row = torch.arange(outputs) // high
    column = torch.arange(inputs) // wide if order is None or bool((order < 0).all()) else _checked(order, groups)
    if zero is not None:
        zero = zero.reshape(rows, groups)[row]
        codes = codes - expand_groups(zero, column)
    return Grouped(codes, scale.float().reshape(rows, groups)[row], column, zero)


def _mxfp4(parts: Parts, scheme: Scheme) -> Tensor:
    """In bf16, which holds each value exactly."""
    blocks, exponents = (
        part.reshape(-1, *part.shape[at:]) for part, at in ((parts["blocks"], -3), (parts["scales"], -2))
    )
    experts, rows, groups, size = blocks.shape
    values = torch.empty(experts, 2 * groups * size, rows, dtype=torch.bfloat16)

    def convert(expert: int) -> None:
        exponent = exponents[expert].int()
        scales = torch.ldexp(torch.ones(exponent.shape), exponent - BIAS).masked_fill(exponent == NO_NUMBER, torch.nan)
        for begin in range(0, rows, BLOCK_ROWS):
            part = slice(begin, begin + BLOCK_ROWS)
            values[expert, :, part] = (_e2m1(blocks[expert, part]) * scales[part, :, None]).flatten(-2).T

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(convert, range(experts)))
    return values.view(*parts["blocks"].shape[:-3], *values.shape[1:])


def _nvfp4(parts: Parts, scheme: Scheme) -> Tensor:
    divided = "weight_global_scale" in parts
    scales, overall = parts["scale"].float(), parts["weight_global_scale" if divided else "weight_scale_2"].reshape(())
    if not 0 < overall < torch.inf:
        raise WrongParts(f"its global scale must be a number above 0, but is {overall:g}")
    scales = scales / overall if divided else scales * overall
    values = _e2m1(parts["packed" if divided else "plain"]).unflatten(-1, (-1, NVFP4_GROUP))
    return (values * scales[..., None]).flatten(-2)


def _e2m1(packed: Tensor) -> Tensor:
    """The values in bytes of two codes each, the one in the low bits first."""
    values = torch.tensor([*E2M1, *(-value for value in E2M1)])
    low, high = torch.arange(256) % 16, torch.arange(256) // 16
    pairs = torch.stack((values[low], values[high]), -1)
    return torch.nn.functional.embedding(packed.int(), pairs).flatten(-2)


def _unpacked(words: Tensor, bits: int, dim: int, order: Sequence[int] = ()) -> Tensor:
    """The codes, int16, in words of 32 bits along a dimension of a table: those at `order`, or the lowest first."""
    count = WORD // bits
    codes = torch.empty(*words.shape[: dim + 1], count, *words.shape[dim + 1 :], dtype=torch.int16)
    for at, nibble in enumerate(order or range(count)):
        codes.select(dim + 1, at).copy_(words >> bits * nibble & (1 << bits) - 1)
    return codes.flatten(dim, dim + 1)


LAYOUTS: dict[str, Callable[[Parts, Scheme], Tensor | Grouped]] = {
    "plain": lambda parts, scheme: parts["plain"],
    "gptq": _gptq,
    "awq": _awq,
    "packed": _packed,
    "scaled": _scaled,
    "mxfp4": _mxfp4,
    "nvfp4": _nvfp4,
}


BLOCK_NUMBERS = {"Q8_0": (34, 1), "Q4_0": (18, 1), "Q4_1": (20, 2)}
"""The bytes of a block of GGUF's types, and its float16 numbers: a scale, and perhaps a minimum; 32 codes follow."""


class Groups(NamedTuple):
    """Scales [rows, columns / 32, rounded up] float32, and zero points (int8) or minimums (float32), if any.

    They are kept beside the bf16 weights of up to 8 bits that were dequantised by them, so that each code is known: a
    code of int8 times its scale, rounded to bf16, is off by a quarter of the scale at most.
    """

    scales: Tensor
    zeros: Tensor | None = None


class Rows(NamedTuple):
    """Scales [rows] float32 of e4m3, kept likewise."""

    scales: Tensor


StoredScales = Groups | Rows
Converted = tuple[Tensor, StoredScales | None]
"""The values of a weight in bf16, and the scales and zeros that it was stored with, if any."""


class Job(NamedTuple):
    """The work on one weight of `size` values."""

    name: str
    size: int
    convert: Callable[[], Converted]


def gguf_scales(stored: np.ndarray, dtype: str) -> list[np.ndarray]:
    """Scales [rows, columns / 32] float32 of bytes in Q8_0, Q4_0 or Q4_1, and its minimums; [] of other types."""
    if dtype not in BLOCK_NUMBERS or stored.ndim != 2:
        return []
    size, count = BLOCK_NUMBERS[dtype]
    blocks = np.ascontiguousarray(stored.reshape(len(stored), -1, size)[:, :, : 2 * count]).view(np.float16)
    return [blocks[:, :, number].astype(np.float32) for number in range(count)]


def stored_scales(weight: Tensor | Grouped) -> StoredScales | None:
    """Those of integers whose neighbours share a scale, and of e4m3 whose rows do; None of others. Zero points are kept
    where codes of four bits need them, in groups of a multiple of 64 columns.
    """
    if not isinstance(weight, Grouped):
        return None
    if weight.codes.is_floating_point():
        return _of_rows(weight)
    groups = torch.nn.functional.pad(weight.groups, (0, -len(weight.groups) % GROUP), value=-1).view(-1, GROUP)
    alike = (groups == groups[:, :1]) | (groups < 0)
    if not bool(alike.all()):
        return None
    scales, zeros = weight.scales[:, groups[:, 0]], weight.zeros
    if zeros is None or all(in_range(block.codes + MIDDLE) for _, block in weight.blocks()):
        return Groups(scales)
    if not all(in_range(block.codes + expand_groups(zeros[rows], block.groups)) for rows, block in weight.blocks()):
        return Groups(scales)
    codes = zeros[:, groups[:, 0]].to(torch.int8)
    return Groups(scales, codes) if in_pairs(scales) and in_pairs(codes) else Groups(scales)


def _of_rows(weight: Grouped) -> Rows | None:
    """The scales of rows where they and the rounded values give the exact ones; so not where codes are no e4m3."""
    scales = weight.scales[:, 0].contiguous()
    if weight.scales.shape[1] > 1 or weight.zeros is not None:
        return None
    for rows, block in weight.blocks():
        exact = block.values()
        rounded = exact.bfloat16()
        if not is_finite(rounded):
            return None
        setattr(rounded, STORED_ROWS, scales[rows])
        if not torch.equal(fp8_rows(rounded).values(torch.float32), exact):
            return None
    return Rows(scales)


def check_stored(weight: Tensor, stored: StoredScales | None) -> StoredScales | None:
    """Scales and minimums in float16 (of rows: as they are) where they and codes are this bf16 weight; else None."""
    if isinstance(stored, Rows):
        return stored
    if stored is None or weight.ndim != 2 or stored.scales.shape != (len(weight), -(-weight.shape[1] // GROUP)):
        return None
    scales, zeros = stored.scales.half(), stored.zeros
    minimums = zeros is not None and zeros.is_floating_point()
    exact = torch.equal(scales.float(), stored.scales)
    if zeros is not None and minimums:
        half = zeros.half()
        exact, zeros = exact and torch.equal(half.float(), zeros), half
    if not exact:
        return None
    for begin in range(0, len(weight), BLOCK_ROWS):
        rows = slice(begin, begin + BLOCK_ROWS)
        block = weight[rows].detach().clone()
        setattr(block, STORED_SCALES, scales[rows])
        setattr(block, STORED_ZEROS, None if zeros is None else zeros[rows])
        matrix = (int4_minimum if minimums else int8_groups)(block)
        if not torch.equal(matrix.values(), block):
            return None
    return Groups(scales, zeros)


def save(folder: Path, stored: Mapping[str, StoredScales]) -> None:
    """Writes scales and zeros of weights by their names; no file where there are none."""
    groups = {name: scaled for name, scaled in stored.items() if isinstance(scaled, Groups)}
    scales = {name: scaled.scales for name, scaled in groups.items()}
    zeros = {name: scaled.zeros for name, scaled in groups.items() if scaled.zeros is not None}
    rows = {name: scaled.scales for name, scaled in stored.items() if isinstance(scaled, Rows)}
    for file, tensors in zip(STORED, (scales, zeros, rows), strict=True):
        if tensors:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / file)
