"""Mistakes planted into the source of a kernel that runs on a CPU: its emulation must find them."""

import ctypes
from collections.abc import Mapping
from pathlib import Path

from kernels.cuda.nvrtc import TILES
from tests.kernels.cuda_sources import own_headers
from tests.kernels.on_cpu.translate import library

Mistakes = Mapping[str, tuple[str, str]]
"""By name what is replaced, and by what; MISTAKE in it is 1 where the mistake is made, else 0."""
SHARED = ("expert_rows.cuh", "visible.cuh")
"""Headers of the tile layer that belong to a kernel's schedule: mistakes are planted into them as well."""


def mistaken(source: Path, mistakes: Mistakes, entry: str, macros: Mapping[str, int], folder: Path) -> ctypes.CDLL:
    """`library` of the source with all mistakes; `make(number)` makes the one of that number, counted from 1."""
    texts = {path.name: path.read_text() for path in (source, *own_headers(source))}
    included = [name for name in SHARED if any(f'"{name}"' in text for text in texts.values())]
    texts |= {name: (TILES / name).read_text() for name in included if name not in texts}
    for number, (right, wrong) in enumerate(mistakes.values(), 1):
        (name,) = [name for name, text in texts.items() if right in text]
        assert texts[name].count(right) == 1, right
        texts[name] = texts[name].replace(right, wrong.replace("MISTAKE", f"(mistake == {number})"))
    texts[source.name] = f"static int mistake;\n{texts[source.name]}"
    for name, text in texts.items():
        (folder / name).write_text(text)
    return library(folder / source.name, entry + 'extern "C" void make(int number) { mistake = number; }', macros)
