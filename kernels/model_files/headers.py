"""The header of a safetensors file, checked to the last byte: `u64 n`, n bytes of JSON, then the tensors' bytes without
holes or overlaps (https://huggingface.co/docs/safetensors, "Format").
"""

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.model_files.content_checks import check_content
from kernels.model_files.errors import ModelRefused
from kernels.model_files.strict_json import parse_json

MAX_HEADER = 100_000_000
MAX_DIM = 2**40
MAX_RANK = 8

BITS: dict[str, int] = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64,
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """One tensor of a shard: `start` and `end` count bytes from the end of the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int
    file: str = ""

    @property
    def numel(self) -> int:
        return math.prod(self.shape)


def read_header(name: str, path: Path) -> list[Tensor]:
    """A safetensors file's tensors in the order of bytes; `name` is for people. Raises ModelRefused."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(1 << 20)
        check_content(name, head, size)
        if size < 8:
            raise ModelRefused(name, "header", f"the file has {size} bytes; a safetensors file has at least 8")
        (length,) = struct.unpack("<Q", head[:8])
        if length > MAX_HEADER:
            raise ModelRefused(
                name, "header", f"the first 8 bytes announce a header of {length:,} bytes; {MAX_HEADER:,} are allowed"
            )
        if 8 + length > size:
            raise ModelRefused(
                name, "header", f"the header ends at byte {8 + length:,}, but the file has {size:,}: it is truncated"
            )
        stream.seek(8)
        return parse_header(name, stream.read(length), size - 8 - length)


def parse_header(name: str, raw: bytes, data_bytes: int) -> list[Tensor]:
    """The tensors that the header `raw` describes, over exactly `data_bytes` bytes. Raises ModelRefused."""
    if not raw.startswith(b"{"):
        raise ModelRefused(name, "header", "the header does not start with '{': this is not a safetensors file")
    document = parse_json(name, raw)
    _check_metadata(name, document.pop("__metadata__", {}))
    tensors = [_tensor(name, key, entry) for key, entry in document.items()]
    tensors.sort(key=lambda tensor: (tensor.start, tensor.end))
    _check_layout(name, tensors, data_bytes)
    return tensors


def _check_metadata(name: str, metadata: Any) -> None:
    if not isinstance(metadata, dict) or any(not isinstance(value, str) for value in metadata.values()):
        raise ModelRefused(name, "__metadata__", "the metadata must map names to text")


def _tensor(name: str, key: str, entry: Any) -> Tensor:
    shown = key[:200]
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ModelRefused(name, shown, "a tensor has exactly dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise ModelRefused(name, f"{shown}.dtype", f"{str(dtype)[:40]!r} is not a type that is taken")
    if not _whole_numbers(shape) or len(shape) > MAX_RANK or any(dim > MAX_DIM for dim in shape):
        raise ModelRefused(name, f"{shown}.shape", "a shape is a list of up to 8 whole numbers, none above 2^40")
    if not _whole_numbers(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        reason = f"the offsets must be two whole numbers from 0, the smaller first, not {str(offsets)[:60]}"
        raise ModelRefused(name, f"{shown}.data_offsets", reason)
    expected = math.prod(shape) * BITS[dtype] // 8
    if expected != offsets[1] - offsets[0]:
        raise ModelRefused(
            name,
            f"{shown}.data_offsets",
            f"a {dtype} tensor of shape {shape} has {expected:,} bytes, but the offsets span "
            f"{offsets[1] - offsets[0]:,}",
        )
    return Tensor(key, dtype, tuple(shape), offsets[0], offsets[1], name)


def _whole_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _check_layout(name: str, tensors: list[Tensor], data_bytes: int) -> None:
    end = 0
    for tensor in tensors:
        field = f"{tensor.name[:200]}.data_offsets"
        if tensor.start < end:
            raise ModelRefused(name, field, f"the tensor starts at byte {tensor.start:,}, inside the one before it")
        if tensor.start > end:
            raise ModelRefused(name, field, f"bytes {end:,} to {tensor.start:,} before the tensor belong to none")
        if tensor.end > data_bytes:
            raise ModelRefused(
                name,
                field,
                f"the tensor ends at byte {tensor.end:,}, but the file holds {data_bytes:,} bytes of tensors: "
                "it is truncated",
            )
        end = tensor.end
    if end != data_bytes:
        raise ModelRefused(name, "header", f"the last {data_bytes - end:,} bytes of the file belong to no tensor")
