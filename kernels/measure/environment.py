"""Where something is measured: the device, the libraries' versions and the commit. Imports torch only when needed."""

import functools
import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.hardware import Gpu, class_of
from kernels.measure import nvml
from kernels.measure.gpu_entry import gpu_of

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).parents[2]
PACKAGES = ("kernels", "workers")
"""The packages whose code decides what is measured."""
SOURCES = (".cu", ".cuh", ".html", ".json", ".py")


def environment_info(device: str | None = None) -> dict[str, Any]:
    """Device, libraries and commit as `workers.documents.measurement.Environment`; None: the first GPU, if any."""
    import torch

    on_gpu = torch.cuda.is_available() if device is None else device.startswith("cuda")
    facts = _gpu_facts() if on_gpu else _cpu_facts()
    return facts | {
        "lease_id": os.environ.get("WORKBENCH_LEASE_ID") or _boot_id(),
        "versions": _versions(on_gpu),
        "commit": commit(),
        "sources": sources_digest(ROOT),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def current_device() -> "tuple[torch.device, Gpu, dict[str, Any]]":
    """The current device: torch's device, its GPU entry, and the environment's facts."""
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return device, gpu_of(device), environment_info()


def _gpu_facts() -> dict[str, Any]:
    import torch

    properties = torch.cuda.get_device_properties(0)
    return {
        "device": properties.name,
        "gpu_class": class_of(properties.name),
        "gpu_uuid": f"GPU-{properties.uuid}",
        "driver": _driver(),
        "memory_gib": round(properties.total_memory / 2**30, 2),
    }


def _cpu_facts() -> dict[str, Any]:
    import psutil
    import torch

    usable, threads = len(os.sched_getaffinity(0)), torch.get_num_threads()
    fewer = f", {threads} {'thread' if threads == 1 else 'threads'}" if threads < usable else ""
    return {
        "device": f"{_cpu_name()}, {usable} cores{fewer}",
        "gpu_class": "cpu",
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 2),
    }


@functools.cache
def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@functools.cache
def _boot_id() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else platform.node()


@functools.cache
def _driver() -> str:
    library = nvml.library()
    if library is not None:
        return str(library.nvmlSystemGetDriverVersion())
    return _output(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]).partition("\n")[0]


@functools.cache
def commit() -> str:
    """The commit of this code: WORKBENCH_COMMIT, or what git says; empty where neither tells."""
    return os.environ.get("WORKBENCH_COMMIT") or checked_out_commit(ROOT)


def checked_out_commit(root: Path) -> str:
    """The commit at `root`, with `-dirty` behind it when files differ; "" where `root` is no checkout's top."""
    git = ["git", "-C", str(root)]
    top = _output([*git, "rev-parse", "--show-toplevel"])
    if not top or Path(top).resolve() != root.resolve():
        return ""
    return _output([*git, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"])


@functools.cache
def sources_digest(root: Path, folders: Sequence[str] = PACKAGES) -> str:
    """SHA-256 over path and content of the source files in `folders` of `root`: the same for the same code, installed
    or with a rewritten history; another of changed files.
    """
    digest = hashlib.sha256()
    for path in sorted(
        source for folder in folders for source in (root / folder).rglob("*") if source.suffix in SOURCES
    ):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _versions(on_gpu: bool) -> dict[str, str]:
    import torch

    versions = {"python": platform.python_version(), "torch": torch.__version__}
    for package in ("kernel-workbench", "transformers", "triton", "cupy-cuda13x", "subquadratic-ops-torch-cu13"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if on_gpu:
        versions |= {"cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}
    return versions
