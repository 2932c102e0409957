"""Compiles CUDA sources as a launch does, by NVRTC, on a machine that needs no GPU; reads what ptxas says of them."""

import importlib.metadata
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.cuda import compiler, nvrtc
from tests.kernels.machine_code import dumped, recorded

PACKAGE = "nvidia-cuda-nvrtc"


@dataclass(frozen=True)
class Resources:
    """What ptxas reports of the kernel, bytes and registers a thread."""

    stack: int
    spill_stores: int
    spill_loads: int
    registers: int


def compile_log(source: Path, constants: Mapping[str, Any]) -> str:
    """The log of compiling a source with these macros. Raises RuntimeError with the errors."""
    given = _options(source, constants, nvrtc.ARCHITECTURE)
    return recorded(source.name, _content(source, given), lambda: compiler.compiled(source, given), "cubin")


def _content(source: Path, given: list[str]) -> bytes:
    """Everything that decides a build."""
    headers = sorted((*source.parent.glob("*.cuh"), *nvrtc.TILES.glob("*.cuh")))
    version = importlib.metadata.version(PACKAGE)
    macros = (option for option in given if not option.startswith("-I"))
    return "\0".join((*(path.read_text() for path in (source, *headers)), version, *macros)).encode()


def cubin(source: Path, constants: Mapping[str, Any], architecture: str, headers: Path) -> tuple[str, bytes]:
    """The log of compiling a source with these macros, and the binary. Headers in `headers` take the place of the tile
    layer's. Raises RuntimeError with the errors.
    """
    return compiler.compiled(source, [f"-I{headers}", *_options(source, constants, architecture)])


def sass(source: Path, constants: Mapping[str, Any], architecture: str) -> tuple[str, str]:
    """The log of compiling a source with these macros, and its machine code. Raises RuntimeError with the errors."""
    given = _options(source, constants, architecture)
    log, binary = built = compiler.compiled(source, given)
    recorded(source.name, _content(source, given), lambda: built, "cubin")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as held:
        held.write(binary)
        held.flush()
        return log, dumped("--dump-sass", Path(held.name))


def _options(source: Path, constants: Mapping[str, Any], architecture: str) -> list[str]:
    return [*nvrtc.options(source, constants), f"--gpu-architecture={architecture}", "--ptxas-options=-v"]


def resources(log: str) -> Resources:
    """What ptxas says of a source with one kernel; raises ValueError when it says nothing."""
    bytes_of = r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    memory, registers = re.search(bytes_of, log), re.search(r"Used (\d+) registers", log)
    if not memory or not registers:
        raise ValueError(f"ptxas reports no resources: {log}")
    return Resources(*(int(number) for number in memory.groups()), int(registers.group(1)))
