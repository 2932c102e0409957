"""Bits of descriptors, from the tables of the PTX ISA."""

Fields = dict[str, tuple[int, int]]
"""First and last bit of each field."""

INSTRUCTION: dict[str, Fields] = {
    "f16": {"sum": (4, 5), "a": (7, 9), "b": (10, 12), "b_columns": (16, 16), "n": (17, 22), "m": (24, 28)},
    "scaled": {
        "b_id": (4, 5), "a": (7, 9), "b": (10, 12), "n": (17, 22), "type": (23, 23), "m": (24, 28), "a_id": (29, 30),
    },
}  # fmt: skip
"""The instruction descriptor of kind::f16 and f8f6f4, and of kind::mxf8f6f4 and mxf4nvf4."""

MEMORY: Fields = {"address": (0, 13), "leading": (16, 29), "stride": (32, 45), "version": (46, 48), "swizzle": (61, 63)}
"""The descriptor of an operand in shared memory."""


def bits(values: dict[str, int], fields: Fields) -> int:
    """A word with these values in its fields."""
    word = 0
    for name, value in values.items():
        low, high = fields[name]
        assert 0 <= value < 1 << high - low + 1
        word |= value << low
    return word
