"""Tensor maps for TMA copies: encoded by the driver, cached by address, shape, strides and box."""

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.cuda.driver import driver

if TYPE_CHECKING:
    import torch

TENSOR_MAP = np.dtype((np.void, 128))
"""`TensorMap` of tma.cuh; a launch takes it by value as a 0-d array."""

ROW_BYTES = 128
"""Bytes of a swizzled box's innermost dimension: one row of a panel, in the 128-byte swizzle."""

TYPES = {"uint8": 0, "float8_e4m3fn": 0, "int8": 0, "int32": 3, "float16": 6, "float32": 7, "bfloat16": 9}
"""CUtensorMapDataType of torch's dtypes; 8-bit values travel as bytes."""

_NO_SWIZZLE, _SWIZZLE_128, _ZEROS_OUTSIDE, _NO_INTERLEAVE = 0, 3, 0, 0
_PROMOTIONS = {128: 2, 256: 3}
"""CUtensorMapL2promotion by what a read brings into the second-level cache, in bytes."""


def encode(tensor: "torch.Tensor", box: Sequence[int], promotion: int = 256, swizzled: bool = True) -> Any:
    """The map of a tensor of 2 to 5 dimensions for boxes of this shape, both with the innermost dimension last.

    A dimension of a box holds at most 256 values, the innermost one exactly 128 bytes; not `swizzled`, any multiple of
    16 bytes. Reads outside the tensor give zeros; writes outside are dropped. A read brings `promotion` bytes, 128 or
    256, into the L2. Raises ValueError for a tensor that TMA cannot describe: an address that is not a multiple of 16,
    an innermost stride other than 1, another stride that is not a multiple of 16 bytes, no elements, another promotion.
    """
    dtype = str(tensor.dtype).removeprefix("torch.")
    _refuse(tensor, dtype, box, swizzled)
    if promotion not in _PROMOTIONS:
        raise ValueError(f"promotion of {promotion} bytes: the copy engine has {', '.join(map(str, _PROMOTIONS))}")
    shape, strides = tuple(tensor.shape), tensor.stride()
    return _encoded(tensor.data_ptr(), dtype, tensor.element_size(), shape, strides, tuple(box), promotion, swizzled)


def named(name: str, tensor: "torch.Tensor", box: Sequence[int], promotion: int = 256, swizzled: bool = True) -> Any:
    """The map of a call's argument: `encode` with the argument's name in its ValueError."""
    try:
        return encode(tensor, box, promotion, swizzled)
    except ValueError as refusal:
        raise ValueError(f"{name}: {refusal}") from None


def _refuse(tensor: "torch.Tensor", dtype: str, box: Sequence[int], swizzled: bool) -> None:
    size = tensor.element_size()
    if dtype not in TYPES:
        raise ValueError(f"tensor is {dtype}: the copy engine moves {', '.join(TYPES)}")
    if not 2 <= tensor.dim() <= 5 or len(box) != tensor.dim():
        raise ValueError(f"box {list(box)} does not fit a tensor of {tensor.dim()} dimensions (2 to 5 are possible)")
    row = box[-1] * size
    if (row != ROW_BYTES if swizzled else row % 16) or not all(1 <= extent <= 256 for extent in box):
        holds = f"{ROW_BYTES} bytes" if swizzled else "a multiple of 16 bytes"
        raise ValueError(f"box {list(box)}: its rows hold {holds} and no dimension more than 256 values")
    if tensor.numel() == 0:
        raise ValueError(f"tensor of shape {list(tensor.shape)} has no elements")
    if tensor.data_ptr() % 16:
        raise ValueError(f"tensor begins at {tensor.data_ptr():#x}, which is no multiple of 16 bytes")
    if tensor.stride(-1) != 1:
        raise ValueError(f"tensor has an innermost stride of {tensor.stride(-1)}, not 1")
    if any(stride * size % 16 or stride * size >= 2**40 for stride in tensor.stride()[:-1]):
        raise ValueError(f"tensor has strides {list(tensor.stride())}: multiples of 16 bytes below 2^40 are possible")


@lru_cache(maxsize=4096)
def _encoded(
    address: int,
    dtype: str,
    size: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    box: tuple[int, ...],
    promotion: int,
    swizzled: bool,
) -> Any:
    rank = len(shape)
    outer = [stride * size for stride in strides[:-1]]
    memory = ctypes.create_string_buffer(128 + 64)
    start = ctypes.addressof(memory) + -ctypes.addressof(memory) % 64
    answer = driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(start), ctypes.c_int(TYPES[dtype]), ctypes.c_uint32(rank), ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*reversed(shape)), (ctypes.c_uint64 * (rank - 1))(*reversed(outer)),
        (ctypes.c_uint32 * rank)(*reversed(box)), (ctypes.c_uint32 * rank)(*[1] * rank),
        ctypes.c_int(_NO_INTERLEAVE), ctypes.c_int(_SWIZZLE_128 if swizzled else _NO_SWIZZLE),
        ctypes.c_int(_PROMOTIONS[promotion]), ctypes.c_int(_ZEROS_OUTSIDE),
    )  # fmt: skip
    if answer:
        raise RuntimeError(f"the driver refuses a tensor map with error {answer}: {shape} by {strides} in boxes {box}")
    return np.frombuffer(ctypes.string_at(start, 128), TENSOR_MAP)[0:1].reshape(()).copy()
