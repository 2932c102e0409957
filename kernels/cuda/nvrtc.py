"""CUDA C++ compiled by NVRTC, for sm_90a or another, and loaded through CuPy; `kernels.cuda.launch` launches it.

A compiled kernel is a file, as is the proof of a megakernel's programs. It is looked for in the folders that
KERNELS_PREBUILT names and in the installed package's, which nobody writes to but `python -m kernels compile`, then in
`cache_directory`, where it is kept if it had to be made.
"""

import hashlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kernels.cuda import compiler

ARCHITECTURE = "sm_90a"
TILES = Path(__file__).parents[1] / "tiles"
"""The header layer that every CUDA source may include."""
PREBUILT = "KERNELS_PREBUILT"
"""The environment variable that names folders of kernels that were compiled ahead, divided by os.pathsep."""
PACKAGED = Path(__file__).parents[1] / "prebuilt"
"""The folder of kernels that `make wheel` packs; there is none in a checkout without it."""
STANDARD = "--std=c++17"


@dataclass(frozen=True)
class Build:
    """A CUDA source as it is compiled: its macros, and the architecture. A build may hold several entries."""

    source: Path
    defines: tuple[tuple[str, Any], ...] = ()
    architecture: str = ARCHITECTURE

    @classmethod
    def of(cls, source: Path, defines: Mapping[str, Any], architecture: str = ARCHITECTURE) -> "Build":
        return cls(source, tuple(defines.items()), architecture)

    @property
    def name(self) -> str:
        """The name of the binary's file. It depends on the compiler's version and the content of the source and of the
        headers beside it and in `tiles/`, and not on where they lie. CUDA's own headers belong to the compiler.
        """
        headers = {*self.source.parent.glob("*.cuh"), *TILES.glob("*.cuh")}
        ordered = sorted(headers, key=lambda header: (header.name, header.parent.name))
        content = (source.read_text() for source in (self.source, *ordered))
        given = (compiler.version(), self.architecture, STANDARD, *_macros(dict(self.defines)))
        digest = hashlib.sha256("\0".join((*content, *given)).encode()).hexdigest()
        return f"{self.source.stem}-{digest[:32]}.cubin"

    def make_into(self, folder: Path) -> Path:
        """The binary in the folder, compiled unless it is there. Raises RuntimeError with the compiler's log."""
        path = folder / self.name
        if not path.exists():
            given = (*options(self.source, dict(self.defines)), f"-arch={self.architecture}")
            _, binary = compiler.compile_source(self.source, given)
            folder.mkdir(parents=True, exist_ok=True)
            fresh = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
            fresh.write_bytes(binary)
            fresh.replace(path)
        return path

    @property
    def is_made(self) -> bool:
        """Whether the binary was compiled ahead or is cached."""
        return prebuilt_file(self.name) is not None or (cache_directory() / self.name).exists()

    def binary(self) -> Path:
        """The binary's file, compiled ahead, cached or compiled now. Raises RuntimeError with the compiler's log."""
        return prebuilt_file(self.name) or self.make_into(cache_directory())


def load(build: Build, entry: str, shared_bytes: int = 0) -> Any:
    """The CuPy function of an extern "C" `entry`, with so much shared memory. Raises RuntimeError with the log."""
    import cupy

    kernel = cupy.RawModule(path=str(build.binary())).get_function(entry)
    if shared_bytes > kernel.max_dynamic_shared_size_bytes:  # the same module may have been loaded for more
        kernel.max_dynamic_shared_size_bytes = shared_bytes
    return kernel


def kernel(build: Build, entry: str, shared_bytes: int = 0) -> Any:
    """`load` on the current GPU, once for each build: each GPU has a shared-memory limit of its own."""
    import torch

    return _kernel(torch.cuda.current_device(), build, entry, shared_bytes)


@cache
def _kernel(device: int, build: Build, entry: str, shared_bytes: int) -> Any:
    return load(build, entry, shared_bytes)


def options(source: Path, defines: Mapping[str, Any]) -> tuple[str, ...]:
    """NVRTC's options, except the architecture and the path of CUDA's own headers."""
    return (STANDARD, f"-I{source.parent}", f"-I{TILES}", *_macros(defines))


def prebuilt_file(name: str) -> Path | None:
    """The file of that name in the first folder that has it, of KERNELS_PREBUILT and PACKAGED; None where none has."""
    named = [Path(folder) for folder in os.environ.get(PREBUILT, "").split(os.pathsep) if folder]
    return next((path for folder in (*named, PACKAGED) if (path := folder / name).exists()), None)


def cache_directory() -> Path:
    """Where compiled kernels and measured choices are kept: $KERNELS_CACHE, or below the user's cache."""
    return Path(os.environ.get("KERNELS_CACHE") or Path.home() / ".cache" / "kernel-workbench")


def _macros(defines: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"-D{name}={value}" for name, value in defines.items())
