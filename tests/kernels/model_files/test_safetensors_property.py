"""Random corruption of a safetensors file is refused, or leaves a file that the safetensors library reads alike."""

import json
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from kernels.model_files import ModelRefused, read_header

names = st.text(min_size=1, max_size=12).filter(lambda name: name != "__metadata__")
shapes = st.lists(st.integers(0, 5), max_size=3)
dtypes = st.sampled_from([("F32", 4), ("BF16", 2), ("U8", 1), ("I64", 8)])


@st.composite
def files(draw: st.DrawFn) -> tuple[dict[str, tuple[str, list[int]]], bytes]:
    header: dict[str, object] = {}
    tensors: dict[str, tuple[str, list[int]]] = {}
    offset = 0
    for name in draw(st.lists(names, unique=True, min_size=1, max_size=5)):
        (dtype, size), shape = draw(dtypes), draw(shapes)
        for dim in shape:
            size *= dim
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        tensors[name] = (dtype, shape)
        offset += size
    raw = json.dumps(header).encode()
    return tensors, struct.pack("<Q", len(raw)) + raw + draw(st.binary(min_size=offset, max_size=offset))


def read(content: bytes) -> dict[str, tuple[str, list[int]]]:
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        Path(file.name).write_bytes(content)
        return {t.name: (t.dtype, list(t.shape)) for t in read_header("model.safetensors", Path(file.name))}


def library(content: bytes) -> dict[str, tuple[str, list[int]]]:
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        Path(file.name).write_bytes(content)
        with safe_open(file.name, framework="np") as opened:
            slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
            return {name: (found.get_dtype(), found.get_shape()) for name, found in slices.items()}


@given(files())
@settings(max_examples=60, deadline=None)
def test_a_sound_file_is_read_as_the_library_reads_it(file: tuple[dict[str, tuple[str, list[int]]], bytes]) -> None:
    tensors, content = file
    assert read(content) == tensors == library(content)


@given(files(), st.data())
@settings(max_examples=150, deadline=None)
def test_corruption_never_passes_silently(file, data):
    _, content = file
    at = data.draw(st.integers(0, len(content) - 1))
    what = data.draw(st.sampled_from(["cut", "flip", "insert", "delete"]))
    byte = data.draw(st.binary(min_size=1, max_size=1))
    broken = {
        "cut": content[:at],
        "flip": content[:at] + byte + content[at + 1 :],
        "insert": content[:at] + byte + content[at:],
        "delete": content[:at] + content[at + 1 :],
    }[what]
    try:
        accepted = read(broken)
    except ModelRefused:
        return
    assert what == "flip", "a file of another length can never be sound"
    assert accepted == library(broken)


def test_half_a_character_is_refused_as_the_library_does() -> None:
    """Found by the test above: Python's JSON takes a lone surrogate, the library's does not."""
    raw = b'{"\\ud800 dc00": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}'
    with pytest.raises(ModelRefused, match="half of a character"):
        read(struct.pack("<Q", len(raw)) + raw + bytes(4))
    whole = raw.replace(b"\\ud800 dc00", b"\\uD83D\\uDE00")
    content = struct.pack("<Q", len(whole)) + whole + bytes(4)
    assert read(content) == library(content) == {"\U0001f600": ("F32", [])}


@given(st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_random_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(ModelRefused):
        read(content)


@given(st.recursive(st.none() | st.integers() | st.floats() | st.text(max_size=5), lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "a"]), inner)
)), st.integers(0, 20))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_any_json_in_the_header_is_read_or_refused(document: object, size: int) -> None:
    raw = json.dumps({"a": document}).encode()
    content = struct.pack("<Q", len(raw)) + raw + bytes(size)
    try:
        accepted = read(content)
    except ModelRefused:
        return
    assert accepted == library(content)
