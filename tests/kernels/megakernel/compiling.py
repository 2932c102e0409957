"""Compiles decode.cu as a launch does, by NVRTC, on a machine that needs no GPU; and reads what ptxas says of it."""

import ctypes
import importlib.metadata
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.megakernel.device import SOURCES

PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime")
ARCHITECTURE = "sm_90a"


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
        raise RuntimeError(f"{package} is not installed, and decode.cu cannot be compiled: make setup") from None
    return next(Path(str(found.locate())) for found in files if found.name == name)


def _nvrtc() -> ctypes.CDLL:
    ctypes.CDLL(str(_file(PACKAGES[0], "libnvrtc-builtins.so.13.0")), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(_file(PACKAGES[0], "libnvrtc.so.13")))


def compile_log(constants: dict[str, Any]) -> str:
    """The log of compiling the kernel with these constants for ARCHITECTURE. Raises RuntimeError with the errors."""
    library, program = _nvrtc(), ctypes.c_void_p()
    options = [
        "--std=c++17", f"--gpu-architecture={ARCHITECTURE}", "--ptxas-options=-v", f"-I{SOURCES}",
        f"-I{_file(PACKAGES[1], 'cuda_bf16.h').parent}", *(f"-D{name}={value}" for name, value in constants.items()),
    ]  # fmt: skip
    source = (SOURCES / "decode.cu").read_bytes()
    library.nvrtcCreateProgram(ctypes.byref(program), source, b"decode.cu", 0, None, None)
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = library.nvrtcCompileProgram(program, len(options), given)
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise RuntimeError(log.value.decode())
    return log.value.decode()


def resources(log: str) -> Resources:
    """What ptxas says of `decode`; raises ValueError when it says nothing."""
    bytes_of = r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    memory, registers = re.search(bytes_of, log), re.search(r"Used (\d+) registers", log)
    if not memory or not registers:
        raise ValueError(f"ptxas reports no resources: {log}")
    return Resources(*(int(number) for number in memory.groups()), int(registers.group(1)))
