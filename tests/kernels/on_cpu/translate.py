"""CUDA kernels of few rows as C++ that runs on a CPU: what is PTX gets another body, everything else stays as it is."""

import ctypes
import fcntl
import hashlib
import platform
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from kernels.cuda.nvrtc import TILES
from tests.kernels.build_cache import cached_build, folder
from tests.kernels.cuda_sources import own_headers

HERE = Path(__file__).parent
COMPILE = ["g++", "-std=c++17", "-O1", "-fPIC", "-w"]

ARITHMETIC = (
    "cluster_queue.cuh", "descriptors.cuh", "expert_rows.cuh", "gumbel_max.cuh", "rows.cuh", "tcgen05_tiles.cuh",
    "visible.cuh",
)  # fmt: skip
"""Headers of the tile layer without PTX: they run as they are."""

BODIES: dict[str, str] = {
    "void keep(u32 address": "",
    "u32 join(": "return (q & mask) | 0x64006400u;",
    "void fence_proxy_async_global(": "",
    "void store_word(": "*to = word, fibers::idle_rounds = 0;",
    "ulonglong2 load_pair(": "fibers::yield(); return {from[0], from[1]};",
    "void reload_if(": "if (missed) words = load_pair(from);",
    "u32 cycles(": "fibers::yield(); return fibers::cycles += 1000;",
    "Shared& shared_memory(": "return *(Shared*)fibers::block().base;",
    "void add_product(u32 (&d)[2]": "const float2 one = tiles::unpack<f16>(d[0]), two = tiles::unpack<f16>(d[1]);"
    "float wide[4] = {one.x, one.y, two.x, two.y}; tiles::mma_sync<f16>(wide, a, b0, b1);"
    "d[0] = tiles::pack<f16>(wide[0], wide[1]), d[1] = tiles::pack<f16>(wide[2], wide[3]);",
    "u32 times(u32 pair": "const float2 x = unpack<bf16>(pair), y = unpack<bf16>(factors);"
    "return pack<bf16>(x.x * y.x, x.y * y.y);",
}
"""The functions that speak PTX, and what they do."""


def translated(source: str) -> str:
    """The source with the bodies of `BODIES`, and its shared memory from the block at hand."""
    for head, body in BODIES.items():
        if head in source:
            begin = source.index("{", source.index(f"__device__ __forceinline__ {head}"))
            source = f"{source[:begin]}{{{body}}}{source[_closing(source, begin) + 1 :]}"
    source = re.sub(r"extern __shared__ [^;]*?(\w+)\[\];", r"char* \1 = fibers::block().base;", source)
    source = re.sub(
        r"__shared__ (\w+) (\w+)((?:\[\w+\])*);",
        r'using Shared_\2 = \1\3; Shared_\2& \2 = fibers::variable<Shared_\2>("\2");',
        source,
    )
    source = re.sub(r"static_assert\([^;]*SHARED_BYTES[^;]*;", "", source)  # barriers here have another size
    source = re.sub(r'asm(?: volatile)?\("" : [^;]*;', ";", source)  # no instruction: it only orders others
    left = re.search(r"\basm\b", source)
    if left:
        raise ValueError(f"PTX without another body: {source[left.start() : left.start() + 80]}")
    return source


def _closing(source: str, opening: int) -> int:
    depth = 0
    for at in range(opening, len(source)):
        depth += (source[at] == "{") - (source[at] == "}")
        if not depth:
            return at
    raise ValueError("a brace is not closed")


@cache
def _precompiled() -> Path:
    """A folder with the header of threads precompiled, which takes four CPU seconds."""
    where = folder() / f"fibers-{hashlib.sha256(_compiler().encode()).hexdigest()[:16]}"
    where.mkdir(exist_ok=True)
    header = where / "fibers.hpp.gch"
    with (where / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not header.exists():
            part = where / "part"
            _run([*COMPILE, "-x", "c++-header", str(HERE / "fibers.hpp"), "-o", str(part)])
            part.replace(header)
    return where


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[:2000])


@cache
def _compiler() -> str:
    """What all programs are compiled with."""
    version = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    headers = sorted(path.read_text() for path in HERE.iterdir() if path.suffix in (".hpp", ".cuh", ".h"))
    return "".join((version, platform.machine(), *COMPILE, *headers))


@cache
def _library(source: Path, entry: str, macros: tuple[tuple[str, int], ...]) -> ctypes.CDLL:
    headers = (*(TILES / name for name in ARITHMETIC), *own_headers(source))
    texts = {header.name: translated(header.read_text()) for header in headers}
    # on the command line, a macro that a precompiled header mentions would leave that header unused
    defined = "".join(f"#define {name} {value}\n" for name, value in macros)
    texts["main.cpp"] = defined + translated(source.read_text()) + entry

    def compiled(into: Path) -> None:
        for name, text in texts.items():
            (into.parent / name).write_text(text)
        given = ["-include", "fibers.hpp", *(f"-I{value}" for value in (into.parent, _precompiled(), HERE))]
        _run([*COMPILE, "-Winvalid-pch", "-shared", *given, str(into.parent / "main.cpp"), "-o", str(into)])

    return ctypes.CDLL(str(cached_build(repr((_compiler(), texts)).encode(), "so", compiled)))


def library(source: Path, entry: str, macros: Mapping[str, int]) -> ctypes.CDLL:
    """The source with these macros, compiled by g++ with the extern "C" functions in `entry` behind it."""
    return _library(source, entry, tuple(macros.items()))
