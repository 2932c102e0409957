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
    return _compiled(source, _options(source, constants, nvrtc.ARCHITECTURE))[0]


def _compiled(source: Path, given: list[str]) -> tuple[str, bytes]:
    """The log and the binary, by everything that decides them: the headers beside what is included, and the options."""
    included = re.findall(r'#include "(.*/.*?)"', source.read_text())
    folders = [Path(option[2:]) for option in given if option.startswith("-I")]
    folders += [(source.parent / name).parent for name in included]
    headers = [header for folder in folders for header in sorted(folder.glob("*.cuh"))]
    macros = (option for option in given if not option.startswith("-I"))
    texts = (path.read_text() for path in (source, *headers))
    content = "\0".join((*texts, importlib.metadata.version(PACKAGE), *macros)).encode()
    return recorded(source.name, content, lambda: compiler.compile_source(source, given), "cubin")


def cubin(source: Path, constants: Mapping[str, Any], architecture: str, headers: Path) -> tuple[str, bytes]:
    """The log of compiling a source with these macros, and the binary."""
    return _compiled(source, [f"-I{headers}", *_options(source, constants, architecture)])


def sass(source: Path, constants: Mapping[str, Any], architecture: str) -> tuple[str, str]:
    """The log of compiling a source with these macros, and its machine code. Raises RuntimeError with the errors."""
    log, binary = _compiled(source, _options(source, constants, architecture))
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
