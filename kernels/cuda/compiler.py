"""NVRTC by itself, which needs no GPU. CuPy's wrapper needs CuPy, and cannot name sm_90a or sm_100a."""

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

LIBRARY, BUILTINS = "libnvrtc.so.13", "libnvrtc-builtins.so.13*"
NOT_FOUND = f"{LIBRARY} is not found, and CUDA sources cannot be compiled: pip install nvidia-cuda-nvrtc"


def version() -> str:
    """NVRTC's version, such as `13.0`. Raises RuntimeError where it is not installed."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def compile_source(source: Path, options: Sequence[str]) -> tuple[str, bytes]:
    """Log and binary (cubin) of a source with CUDA's headers, in any thread. Raises RuntimeError with errors."""
    library, program = _library(), ctypes.c_void_p()
    given = [*options, *(f"-I{include}" for include in _includes())]
    library.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None)
    try:
        packed = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
        failed = library.nvrtcCompileProgram(program, len(given), packed)
        log = _nvrtc_output(library, program, "ProgramLog").removesuffix(b"\0").decode()
        if failed:
            raise RuntimeError(f"{source.name} does not compile: {log or f'NVRTC error {failed}'}")
        return log, _nvrtc_output(library, program, "CUBIN")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _nvrtc_output(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    """What nvrtcGet`what` says of a program."""
    size = ctypes.c_size_t()
    library[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    library[f"nvrtcGet{what}"](program, buffer)
    return buffer.raw


@cache
def _library() -> ctypes.CDLL:
    folders = [folder / name for folder in _toolkits() for name in ("lib", "lib64")]
    directory = next((folder for folder in folders if (folder / LIBRARY).exists()), None)
    try:
        if directory is None:
            return ctypes.CDLL(LIBRARY)  # from where the system's loader looks
        for path in sorted(directory.glob(BUILTINS)):
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(str(directory / LIBRARY))
    except OSError as error:
        raise RuntimeError(NOT_FOUND) from error


@cache
def _includes() -> tuple[Path, ...]:
    """The folders in which cuda_bf16.h lies."""
    return tuple(toolkit / "include" for toolkit in _toolkits() if (toolkit / "include" / "cuda_bf16.h").exists())


def _toolkits() -> Iterator[Path]:
    """Where CUDA may be: the folders of its wheels beside Python's other packages, then the toolkit's."""
    for packages in sys.path:
        yield from sorted(Path(packages, "nvidia").glob("*"))
    yield from map(Path, filter(None, (os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda")))
