"""Mistakes planted into the source of a kernel that runs on a CPU: its emulation must find them."""

import ctypes
from collections.abc import Mapping
from pathlib import Path

from tests.kernels.cuda_sources import own_headers
from tests.kernels.on_cpu.translate import library

Mistakes = Mapping[str, tuple[str, str]]
"""By name what is replaced, and by what; MISTAKE in it is 1 where the mistake is made, else 0."""


def mistaken(source: Path, mistakes: Mistakes, entry: str, macros: Mapping[str, int], folder: Path) -> ctypes.CDLL:
    """`library` of the source with all mistakes; `make(number)` makes the one of that number, counted from 1."""
    text = source.read_text()
    for number, (right, wrong) in enumerate(mistakes.values(), 1):
        assert text.count(right) == 1, right
        text = text.replace(right, wrong.replace("MISTAKE", f"(mistake == {number})"))
    for header in own_headers(source):
        (folder / header.name).write_text(header.read_text())
    path = folder / source.name
    path.write_text(f"static int mistake;\n{text}")
    return library(path, entry + 'extern "C" void make(int number) { mistake = number; }', macros)
