"""The header of a GGUF file, checked to the last byte. Nothing but the header is read.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. A file is magic and version, the numbers of tensors
and of metadata entries, the entries, a description of each tensor, and the tensors' bytes at aligned offsets.
"""

import math
import mmap
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernels.model_files.errors import ModelRefused
from kernels.model_files.headers import MAX_DIM, Tensor

SUFFIX = ".gguf"
MAGIC = b"GGUF"
CHAT_TEMPLATE = "tokenizer.chat_template"
VERSIONS = (2, 3)
MAX_ENTRIES, MAX_TENSORS = 10_000, 200_000
MAX_TEXT = 2**24
MAX_ITEMS = 2**22
"""Of all arrays. The largest vocabularies have 262,144 tokens, three arrays, and twice as many merges."""
MAX_HEADER = 2**28
MAX_RANK = 4
MAX_ALIGNMENT = 2**20
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9

BLOCKS: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 30: ("BF16", 1, 2),
    2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210), 39: ("MXFP4", 32, 17),
}  # fmt: skip
"""The types of tensors that are taken, by ggml's number: name, weights in a block, and bytes of it."""


@dataclass(frozen=True)
class GgufHeader:
    """Metadata by key, and tensors in the order of bytes: `start` and `end` in the file, shapes as torch's."""

    metadata: dict[str, Any]
    tensors: list[Tensor]

    @property
    def types(self) -> str:
        """The types of the tensors, the one with the most bytes first."""
        sizes: dict[str, int] = {}
        for tensor in self.tensors:
            sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.end - tensor.start
        return ", ".join(sorted(sizes, key=lambda name: -sizes[name]))


def read_gguf(name: str, path: Path) -> GgufHeader:
    """The header of a GGUF file, which has the name `name` for people. Raises ModelRefused when anything is wrong."""
    with path.open("rb") as stream:
        if stream.read(4) != MAGIC:
            raise ModelRefused(name, "header", "the file does not begin with GGUF: this is not a GGUF file")
        size = path.stat().st_size
        with mmap.mmap(stream.fileno(), min(size, MAX_HEADER), access=mmap.ACCESS_READ) as data:
            return _Reader(name, data, size).header()


class _Reader:
    """Reads from `at` on; `data` is the beginning of a file of `size` bytes, MAX_HEADER at most."""

    def __init__(self, name: str, data: mmap.mmap, size: int) -> None:
        self.name, self.data, self.size, self.at, self.items_left = name, data, size, len(MAGIC), MAX_ITEMS

    def header(self) -> GgufHeader:
        version = self.number("I")
        if version not in VERSIONS:
            reason = f"version {version & 0xFFFF} is not one of {', '.join(map(str, VERSIONS))}"
            if version & 0xFFFF == 0:
                reason = "the file is big-endian; hand in a little-endian one"
            raise self.refused("version", reason)
        tensors, entries = self.number("Q"), self.number("Q")
        for field, count, most in (("tensor_count", tensors, MAX_TENSORS), ("metadata_kv_count", entries, MAX_ENTRIES)):
            if count > most:
                raise self.refused(field, f"{count:,} are more than the {most:,} taken")
        metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = self.text("a metadata key")
            if key in metadata:
                raise self.refused(key[:100], "the key is there twice")
            metadata[key] = self.value(key[:100], self.number("I"))
        alignment = metadata.get("general.alignment", 32)
        if type(alignment) is not int or not 8 <= alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
            raise self.refused("general.alignment", f"must be a power of two from 8 to {MAX_ALIGNMENT:,}")
        described = [self.tensor(alignment) for _ in range(tensors)]
        begin = -(-self.at // alignment) * alignment
        return GgufHeader(metadata, self.add_offsets(described, begin))

    def tensor(self, alignment: int) -> Tensor:
        name = self.text("a tensor's name")
        shown, rank = name[:100], self.number("I")
        if not 1 <= rank <= MAX_RANK:
            raise self.refused(shown, f"a tensor has 1 to {MAX_RANK} dimensions, not {rank:,}")
        shape = [self.number("Q") for _ in range(rank)]
        kind, offset = self.number("I"), self.number("Q")
        if any(not 0 < size <= MAX_DIM for size in shape):
            raise self.refused(shown, "each dimension is from 1 to 2^40")
        if kind not in BLOCKS:
            supported = ", ".join(name for name, _, _ in BLOCKS.values())
            raise self.refused(shown, f"tensors of ggml's type {kind} are not taken, only {supported}")
        dtype, weights, size = BLOCKS[kind]
        if shape[0] % weights:
            raise self.refused(shown, f"rows of {shape[0]:,} are no whole blocks of {weights} weights, as {dtype} has")
        if offset % alignment:
            raise self.refused(shown, f"the offset {offset:,} is no multiple of the alignment {alignment}")
        length = math.prod(shape) // weights * size
        return Tensor(name, dtype, tuple(reversed(shape)), offset, offset + length, self.name)

    def add_offsets(self, tensors: list[Tensor], begin: int) -> list[Tensor]:
        """The tensors at their places in the file. Raises ModelRefused where two share bytes, or a name."""
        with_offsets, end, names = [], begin, set[str]()
        for described in sorted(tensors, key=lambda tensor: tensor.start):
            tensor = replace(described, start=begin + described.start, end=begin + described.end)
            shown = tensor.name[:100]
            if tensor.name in names:
                raise self.refused(shown, "the tensor is there twice")
            if tensor.start < end:
                raise self.refused(shown, f"the tensor starts at byte {tensor.start:,}, inside the one before it")
            if tensor.end > self.size:
                reason = f"the tensor ends at byte {tensor.end:,}, but the file has {self.size:,}: it is truncated"
                raise self.refused(shown, reason)
            names.add(tensor.name)
            with_offsets.append(tensor)
            end = tensor.end
        if not with_offsets:
            raise self.refused("tensor_count", "the file holds no tensor")
        return with_offsets

    def value(self, field: str, kind: int) -> Any:
        if kind == TEXT:
            return self.text(field)
        if kind != ARRAY:
            return self.number(self.form(field, kind))
        kind, count = self.number("I"), self.number("Q")
        if count > self.items_left:
            raise self.refused(field, f"arrays of a file have at most {MAX_ITEMS:,} items together")
        self.items_left -= count
        if kind == TEXT:
            return [self.text(field) for _ in range(count)]
        form = self.form(field, kind)
        return list(struct.unpack(f"<{count}{form}", self.bytes(count * struct.calcsize(f"<{form}"))))

    def form(self, field: str, kind: int) -> str:
        if kind not in NUMBERS:
            raise self.refused(field, f"values of type {kind} are not taken")
        return NUMBERS[kind]

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.bytes(struct.calcsize(f"<{form}")))[0]

    def text(self, field: str) -> str:
        length = self.number("Q")
        if length > MAX_TEXT:
            raise self.refused(field, f"a text of {length:,} bytes is longer than the {MAX_TEXT:,} taken")
        try:
            return self.bytes(length).decode()
        except UnicodeDecodeError:
            raise self.refused(field, "the text is not UTF-8") from None

    def bytes(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            truncated = f"the header goes beyond the file's {self.size:,} bytes: it is truncated"
            too_long = f"the header has more than the {MAX_HEADER:,} bytes that are allowed"
            raise self.refused("header", truncated if self.size < MAX_HEADER else too_long)
        self.at += count
        return self.data[self.at - count : self.at]

    def refused(self, field: str, reason: str) -> ModelRefused:
        return ModelRefused(self.name, "".join(c if c.isprintable() else "?" for c in field), reason)
