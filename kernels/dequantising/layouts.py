"""The values of quantised weights, in float32, by the layout that their tensors have."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.model_files.quantised import Scheme
from kernels.model_files.stored_weights import WORD, block_of, scale_shape

Parts = Mapping[str, Tensor]
AWQ_PLACES = {4: (0, 4, 1, 5, 2, 6, 3, 7), 8: (0, 2, 1, 3)}
"""Where the weights of one word lie in it, by their bits."""
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
NO_NUMBER, BIAS = 255, 127
"""Of MXFP4's scales, which are powers of two."""


class WrongParts(Exception):
    """Why the values of the tensors do not fit together, as a sentence."""


class Grouped(NamedTuple):
    """A weight as `codes` [outputs, inputs], less their zero points, and `scales` [outputs, groups] float32; `groups`
    [inputs] names the group of each input. `zeros` [outputs, groups] are the zero points, if any.
    """

    codes: Tensor
    scales: Tensor
    groups: Tensor
    zeros: Tensor | None = None

    def values(self) -> Tensor:
        return self.codes * self.scales[:, self.groups]


def stored(layout: str, parts: Parts, scheme: Scheme) -> Tensor | Grouped:
    """The weight as the model has it, or what it is made of. Raises WrongParts."""
    return LAYOUTS[layout](parts, scheme)


def dequantised(weight: Tensor | Grouped) -> Tensor:
    """The values of a weight."""
    return weight.values() if isinstance(weight, Grouped) else weight


def _gptq(parts: Parts, scheme: Scheme) -> Grouped:
    codes = _unpacked(parts["qweight"], scheme.bits, 0)
    scales, outputs = parts["scales"].float(), parts["scales"].shape[1]
    zeros = _unpacked(parts["qzeros"], scheme.bits, 1)[:, :outputs] + scheme.zero_offset
    groups = _groups(parts, len(codes), len(scales), scheme)
    return Grouped((codes - zeros[groups]).T, scales.T, groups, zeros.T)


def _awq(parts: Parts, scheme: Scheme) -> Grouped:
    outputs = parts["scales"].shape[1]
    codes, zeros = (_in_order(_unpacked(parts[part], scheme.bits, 1), scheme.bits) for part in ("qweight", "qzeros"))
    groups = _groups(parts, len(codes), len(zeros), scheme)
    return Grouped((codes - zeros[groups])[:, :outputs].T, parts["scales"].float().T, groups, zeros[:, :outputs].T)


def _in_order(codes: Tensor, bits: int) -> Tensor:
    words = codes.unflatten(1, (-1, WORD // bits))
    return words[:, :, list(AWQ_PLACES[bits])].flatten(1)


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
    own = _with_scales(codes, parts["scale"], zero, parts.get("g_idx"), scheme)
    return own if own.zeros is None else own._replace(zeros=own.zeros + middle)


def _scaled(parts: Parts, scheme: Scheme) -> Grouped:
    codes = parts["plain"].int() if parts["plain"].dtype == torch.int8 else parts["plain"].float()
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
        codes = codes - zero[:, column]
    return Grouped(codes, scale.float().reshape(rows, groups)[row], column, zero)


def _mxfp4(parts: Parts, scheme: Scheme) -> Tensor:
    low, high = parts["blocks"] & 15, parts["blocks"] >> 4
    values = torch.tensor([*E2M1, *(-value for value in E2M1)])
    exponents = parts["scales"].int()
    scales = torch.ldexp(torch.ones(exponents.shape), exponents - BIAS).masked_fill(exponents == NO_NUMBER, torch.nan)
    codes = torch.stack((low, high), -1).flatten(-2).long()
    return (values[codes] * scales[..., None]).flatten(-2).transpose(-2, -1)


def _unpacked(words: Tensor, bits: int, dim: int) -> Tensor:
    """The codes in words of 32 bits, the lowest bits first, along a dimension of a table."""
    shifts = torch.arange(0, WORD, bits, dtype=torch.int32)
    codes = words.unsqueeze(dim + 1) >> (shifts[:, None] if dim == 0 else shifts) & (1 << bits) - 1
    return codes.flatten(dim, dim + 1)


LAYOUTS: dict[str, Callable[[Parts, Scheme], Tensor | Grouped]] = {
    "plain": lambda parts, scheme: parts["plain"],
    "gptq": _gptq,
    "awq": _awq,
    "packed": _packed,
    "scaled": _scaled,
    "mxfp4": _mxfp4,
}
