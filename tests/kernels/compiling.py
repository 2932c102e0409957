"""Compiles CUDA sources as a launch does, by NVRTC, on a machine that needs no GPU; reads what ptxas says of them."""

import ctypes
import importlib.metadata
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.cuda import nvrtc
from tests.kernels.machine_code import dumped, recorded

PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime")


@dataclass(frozen=True)
class Resources:
    """What ptxas reports of the kernel, bytes and registers a thread."""

    stack: int
    spill_stores: int
    spill_loads: int
    registers: int


def _file(package: str, name: str) -> Path:
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        raise RuntimeError(f"{package} is not installed, and CUDA sources cannot be compiled: make setup") from None
    return next(Path(str(found.locate())) for found in files if found.name == name)


def _nvrtc() -> ctypes.CDLL:
    ctypes.CDLL(str(_file(PACKAGES[0], "libnvrtc-builtins.so.13.0")), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(_file(PACKAGES[0], "libnvrtc.so.13")))


def compile_log(source: Path, constants: Mapping[str, Any]) -> str:
    """The log of compiling a source with these macros. Raises RuntimeError with the errors."""
    given = _options(source, constants, nvrtc.ARCHITECTURE)
    return recorded(source.name, _content(source, given), lambda: _compiled(source, given), "cubin")


def _content(source: Path, given: list[str]) -> bytes:
    """Everything that decides a build."""
    headers = sorted((*source.parent.glob("*.cuh"), *nvrtc.TILES.glob("*.cuh")))
    version = importlib.metadata.version(PACKAGES[0])
    macros = (option for option in given if not option.startswith("-I"))
    return "\0".join((*(path.read_text() for path in (source, *headers)), version, *macros)).encode()


def cubin(source: Path, constants: Mapping[str, Any], architecture: str, headers: Path) -> tuple[str, bytes]:
    """The log of compiling a source with these macros, and the binary. Headers in `headers` take the place of the tile
    layer's. Raises RuntimeError with the errors.
    """
    return _compiled(source, [f"-I{headers}", *_options(source, constants, architecture)])


def sass(source: Path, constants: Mapping[str, Any], architecture: str) -> tuple[str, str]:
    """The log of compiling a source with these macros, and its machine code. Raises RuntimeError with the errors."""
    given = _options(source, constants, architecture)
    log, binary = built = _compiled(source, given)
    recorded(source.name, _content(source, given), lambda: built, "cubin")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as held:
        held.write(binary)
        held.flush()
        return log, dumped("--dump-sass", Path(held.name))


def _options(source: Path, constants: Mapping[str, Any], architecture: str) -> list[str]:
    return [
        *nvrtc.options(source, constants), f"--gpu-architecture={architecture}", "--ptxas-options=-v",
        f"-I{_file(PACKAGES[1], 'cuda_bf16.h').parent}",
    ]  # fmt: skip


def _compiled(source: Path, given: list[str]) -> tuple[str, bytes]:
    """The compiler's log and the cubin. Raises RuntimeError with the errors."""
    library, program = _nvrtc(), ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None)
    options = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
    failed = library.nvrtcCompileProgram(program, len(given), options)
    log = _told(library, program, "ProgramLog").decode()
    binary = b"" if failed else _told(library, program, "CUBIN")
    library.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise RuntimeError(log)
    return log, binary


def _told(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    """What nvrtcGet`what` says of a program; a log without its last zero byte."""
    size = ctypes.c_size_t()
    library[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    library[f"nvrtcGet{what}"](program, buffer)
    return buffer.raw.removesuffix(b"\0") if what == "ProgramLog" else buffer.raw


def resources(log: str) -> Resources:
    """What ptxas says of a source with one kernel; raises ValueError when it says nothing."""
    bytes_of = r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    memory, registers = re.search(bytes_of, log), re.search(r"Used (\d+) registers", log)
    if not memory or not registers:
        raise ValueError(f"ptxas reports no resources: {log}")
    return Resources(*(int(number) for number in memory.groups()), int(registers.group(1)))
