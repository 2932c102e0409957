"""What a stage's process may read beside the system's files: Python, the libraries and our own code; and its user."""

import hashlib
import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from workers.host import vllm_folder

ROOT = Path(__file__).resolve().parents[2]
CODE = ("kernels", "workers")
FIRST_USER, USERS = 2_000_000_000, 100_000_000
LIBRARY_PATHS = ("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "PATH")
NAMED_FOLDERS = ("PYTHONPATH", "PYTHONPYCACHEPREFIX", "WORKER_STAGE_READABLE", "KERNELS_GPUS", "KERNELS_PREBUILT")
LIBRARY_FOLDERS = ("CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV")


class Folders(NamedTuple):
    """What a stage's process works in: its scratch directory, its model's files, and its recording's folder, if any."""

    scratch: Path
    model: Path
    recordings: Path | None

    @property
    def read(self) -> list[str]:
        return [str(path) for path in (self.model, self.recordings) if path]


def python_files() -> tuple[str, ...]:
    folders = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    return tuple(sorted(folders | {str(Path(folder).resolve()) for folder in folders}))


def readable(outer: Mapping[str, str], packages: Iterable[str], closed: Iterable[Path]) -> tuple[str, ...]:
    """Everything a stage reads, by the worker's environment `outer`; nothing above a `closed` directory.

    `packages` are the top packages beside our own that hold stages. WORKER_STAGE_READABLE names more paths, separated
    by colons, KERNELS_GPUS a folder of GPU entries, KERNELS_PREBUILT one of compiled kernels, WORKER_VLLM the folder of
    vLLM's environment, PYTHONPYCACHEPREFIX one of bytecode.
    """
    names = (*LIBRARY_PATHS, *LIBRARY_FOLDERS, *NAMED_FOLDERS)
    listed = [path for name in names for path in outer.get(name, "").split(os.pathsep) if os.path.isabs(path)]
    listed += [*toolchains(outer), *vllm_folder.files(outer)]
    code = [str(ROOT / package) for package in (*CODE, *packages)]
    return (*python_files(), *code, *(path for path in listed if not _opens(Path(path), closed)))


def toolchains(outer: Mapping[str, str]) -> list[str]:
    """The folders above the `bin` of the compilers that CC and CXX name: their libraries and headers lie there."""
    commands = (outer.get(name, "").split() for name in ("CC", "CXX"))
    programs = (shutil.which(command[0], path=outer.get("PATH")) for command in commands if command)
    folders = (Path(file).resolve().parent for file in programs if file)
    roots = {folder.parent for folder in folders if folder.name == "bin"}
    return sorted(str(root) for root in roots if root != root.parent)


def _opens(path: Path, closed: Iterable[Path]) -> bool:
    """Whether a closed directory lies in the path, or the path in it."""
    real = path.resolve()
    return any(path.is_relative_to(real) or real.is_relative_to(path) for path in map(Path.resolve, closed))


def code_folder(scratch: Path, packages: Iterable[str]) -> Path:
    """A folder in `scratch` with links to the code, for PYTHONPATH: the root itself may hold the data directory."""
    folder = scratch / "code"
    folder.mkdir()
    for package in {*CODE, *packages}:
        (folder / package).symlink_to(ROOT / package)
    return folder


def stage_modules(package: str) -> list[str]:
    return [f"{package}.{module.name}" for module in pkgutil.iter_modules(importlib.import_module(package).__path__)]


def user_of(organisation: str) -> int:
    """The user id of an organisation's stages on a worker that runs as root."""
    return FIRST_USER + int(hashlib.sha256(organisation.encode()).hexdigest()[:12], 16) % USERS


def make_device_files() -> None:
    """Have NVIDIA's own tool make the devices that CUDA needs, as the driver's library does for root."""
    tool = shutil.which("nvidia-modprobe")
    if tool and Path("/proc/driver/nvidia").exists() and not Path("/dev/nvidia-uvm").exists():
        subprocess.run([tool, "-u", "-c", "0"], check=False, capture_output=True)
