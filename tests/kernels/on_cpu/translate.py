"""CUDA kernels of few rows as C++ that runs on a CPU: what is PTX gets another body, everything else stays as it is."""

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent

BODIES: dict[str, str] = {
    "void mma(": """
      struct Lane { u32 a[4], b0, b1; };
      fibers::put(Lane{{a[0], a[1], a[2], a[3]}, b0, b1});
      const auto two = [](u32 both) { return kHalfProducts ? unpack<f16>(both) : unpack<bf16>(both); };
      const auto dot = [&](u32 x, u32 y) { return two(x).x * two(y).x + two(x).y * two(y).y; };
      for (int i = 0; i < 4; i++)
        for (int q = 0; q < 4; q++) {
          const Lane row = fibers::slot<Lane>(fibers::lane() / 4 * 4 + q);
          const Lane column = fibers::slot<Lane>((fibers::lane() % 4 * 2 + i % 2) * 4 + q);
          d[i] += dot(row.a[i / 2], column.b0) + dot(row.a[2 + i / 2], column.b1);
        }
      fibers::meet_warp();""",
    "u32 two(": """
      const auto one = [](u32 b) {
        const int e = b >> 3 & 15, m = b & 7;
        const float x = (b & 127) == 127 ? NAN : e ? std::ldexp(1 + m / 8.f, e - 7) : std::ldexp(m / 8.f, -6);
        return f16(b & 128 ? -x : x).bits;
      };
      return one(bytes & 255) | (u32)one(bytes >> 8 & 255) << 16;""",
    "u32 join(": "return (q & mask) | 0x64006400u;",
    "void keep(": "",
    "void bulk_copy(": "memcpy(to, from, bytes), land(barrier, bytes);",
    "void look_ahead(": "",
    "float of_block(": "return fibers::of_rank(&own, rank);",
    "float of_rank(": "return fibers::of_rank(mine, rank);",
    "float4 of_rank(": "return *(const float4*)&fibers::of_rank(mine, rank);",
}
"""The functions that speak PTX, and what they do."""


def translated(source: str) -> str:
    """The source with the bodies of `BODIES`, and its shared memory from the block at hand."""
    for head, body in BODIES.items():
        if head in source:
            begin = source.index("{", source.index(f"__device__ __forceinline__ {head}"))
            source = f"{source[:begin]}{{{body}}}{source[_closing(source, begin) + 1 :]}"
    source = re.sub(r"extern __shared__ [^;]*;", "char* memory = fibers::block().base;", source)
    source = re.sub(
        r"__shared__ (\w+) (\w+)((?:\[\w+\])*);",
        r'using Shared_\2 = \1\3; Shared_\2& \2 = fibers::variable<Shared_\2>("\2");',
        source,
    )
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
def _library(source: Path, entry: str, macros: tuple[tuple[str, int], ...]) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        for header in (*source.parent.glob("skinny*.cuh"), *source.parent.glob("small*.cuh")):
            (Path(folder) / header.name).write_text(translated(header.read_text()))
        main = Path(folder) / "main.cpp"
        main.write_text(translated(source.read_text()) + entry)
        given = [f"-D{name}={value}" for name, value in macros]
        found = Path(folder) / "kernel.so"
        command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-w", f"-I{folder}", f"-I{HERE}", *given]
        done = subprocess.run([*command, str(main), "-o", str(found)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[:2000])
        return ctypes.CDLL(str(found))


def library(source: Path, entry: str, macros: Mapping[str, int]) -> ctypes.CDLL:
    """The source with these macros, compiled by g++ with the extern "C" functions in `entry` behind it."""
    return _library(source, entry, tuple(macros.items()))
