"""CUDA C++ compiled by NVRTC, for sm_90a or another, and loaded through CuPy; `kernels.cuda.launch` launches it."""

import hashlib
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ARCHITECTURE = "sm_90a"
TILES = Path(__file__).parents[1] / "tiles"
"""The header layer that every CUDA source may include."""


def load(
    source: Path,
    entry: str,
    defines: Mapping[str, Any] | None = None,
    shared_bytes: int = 0,
    architecture: str = ARCHITECTURE,
) -> Any:
    """The CuPy function `entry` of a CUDA source, compiled with these macros.

    The binary is cached, in the directory of `cache_directory`, by the compiler's version and the content of the source
    and of the headers beside it and in `tiles/`. `shared_bytes` is the dynamic shared memory a launch may ask for.
    `entry` is an extern "C" name.
    Raises RuntimeError with the compiler's log.
    """
    import cupy

    kernel = cupy.RawModule(path=str(_cubin(source, options(source, defines or {}), architecture))).get_function(entry)
    if shared_bytes > kernel.max_dynamic_shared_size_bytes:  # the same module may have been loaded for more
        kernel.max_dynamic_shared_size_bytes = shared_bytes
    return kernel


def options(source: Path, defines: Mapping[str, Any]) -> tuple[str, ...]:
    """NVRTC's options, except the architecture and the path of CUDA's own headers."""
    macros = (f"-D{name}={value}" for name, value in defines.items())
    return ("--std=c++17", f"-I{source.parent}", f"-I{TILES}", *macros)


def cache_directory() -> Path:
    """Where compiled kernels and measured choices are kept: $KERNELS_CACHE, or below the user's cache."""
    return Path(os.environ.get("KERNELS_CACHE") or Path.home() / ".cache" / "kernel-workbench")


def _cubin(source: Path, given: tuple[str, ...], architecture: str) -> Path:
    from cupy.cuda import nvrtc

    headers = sorted({*source.parent.glob("*.cuh"), *TILES.glob("*.cuh")})
    compiler = ".".join(map(str, nvrtc.getVersion()))
    content = "\0".join((*(each.read_text() for each in (source, *headers)), compiler, architecture, *given))
    path = cache_directory() / f"{source.stem}-{hashlib.sha256(content.encode()).hexdigest()[:32]}.cubin"
    if not path.exists():
        binary = _compiled(source, given, architecture)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        fresh.write_bytes(binary)
        fresh.replace(path)
    return path


def _compiled(source: Path, given: Iterable[str], architecture: str) -> bytes:
    """NVRTC by itself: CuPy's own wrapper cannot name sm_90a or sm_100a, which wgmma and setmaxnreg need."""
    from cupy.cuda import nvrtc

    includes = (f"-I{each}" for each in _cuda_includes())
    program = nvrtc.createProgram(source.read_text(), source.name, (), ())
    try:
        nvrtc.compileProgram(program, (*given, *includes, f"-arch={architecture}"))
        return nvrtc.getCUBIN(program)
    except nvrtc.NVRTCError as error:
        raise RuntimeError(f"{source.name} does not compile: {nvrtc.getProgramLog(program)}") from error
    finally:
        nvrtc.destroyProgram(program)


def _cuda_includes() -> list[Path]:
    """Where cuda_bf16.h may lie: the toolkit, or the toolkit's wheels."""
    import cupy
    import numpy

    toolkit = cupy.cuda.get_cuda_path()
    wheels = Path(numpy.__file__).parents[1] / "nvidia"
    found = [Path(toolkit) / "include"] if toolkit else []
    return [each for each in (*found, *wheels.glob("*/include")) if (each / "cuda_bf16.h").exists()]
