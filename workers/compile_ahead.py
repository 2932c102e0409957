"""Compiles the kernels of a run's plans on the host's CPUs, while the run's first stages load and measure the model.

A compiled kernel depends on shapes and not on weights, so one folder serves all organisations. Processes of the worker
alone write to it, from the checked numbers of config.json; stages read it, by KERNELS_PREBUILT.
"""

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from kernels.cuda.nvrtc import PREBUILT
from kernels.hardware import GPUS
from workers.documents.gpu_class import single_gpu_class
from workers.documents.stages import StageInput
from workers.lifeline import die_with_parent
from workers.precisions import lossy_refusal

HOPPER = 90
"""The compute capability (x 10) whose kernels are CUDA C++ that is compiled here."""
MOST_CPU_SECONDS = 600
MOST_FILES = 4000
"""The oldest files beyond so many are removed before more are made."""
LOWER_PRIORITY = 10
FIRST_STAGES = ("admit", "baseline")
LOWER = ("fp8", "nvfp4")
"""The lower precisions of the megakernel's weights."""


def folder_of(cache: Path) -> Path:
    """The folder of the kernels that a worker with this cache has compiled."""
    return cache / "compiled"


def prebuilt(outer: Mapping[str, str], cache: Path) -> str:
    """KERNELS_PREBUILT for a stage: the operator's folders first, then the worker's own."""
    return os.pathsep.join(filter(None, [outer.get(PREBUILT, ""), str(folder_of(cache))]))


def start(document: StageInput, model: Path, cache: Path, env: Mapping[str, str]) -> "subprocess.Popen[bytes] | None":
    """Start compiling in a process of lower priority; None where the run has no such plans, or is past its start.

    `model` is the directory with config.json. The process ends by itself, or with this one.
    """
    gpu_class, constraints = single_gpu_class(document.gpu_class), document.workload.constraints
    if document.stage not in FIRST_STAGES or document.model.kind != "decoder" or GPUS[gpu_class].sm != HOPPER:
        return None
    folder, traffic = folder_of(cache), document.workload.traffic
    folder.mkdir(parents=True, exist_ok=True)
    _prune(folder)
    arguments = ["compile", "--plans-only", "--no-server", "--into", str(folder), "--model", str(model)]
    arguments += ["--gpu", gpu_class, "--jobs", str(max(1, (os.cpu_count() or 2) // 4))]
    arguments += ["--batch", str(traffic.batch), "--prompt", str(traffic.prompt_tokens)]
    arguments += ["--tokens", str(traffic.output_tokens)]
    for weights in LOWER:
        if not lossy_refusal(weights, constraints, document.model):
            arguments += ["--weights", weights]
    for gpus in range(2, document.gpus + 1, 2):
        arguments += ["--gpus", str(gpus)]
    command = [sys.executable, "-m", "workers.compile_ahead", str(os.getpid()), *arguments]
    process = subprocess.Popen(
        command, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    threading.Thread(target=process.wait, name="compile-ahead", daemon=True).start()
    return process


def _prune(folder: Path) -> None:
    files = sorted(folder.iterdir(), key=lambda each: each.stat().st_mtime)
    for path in files[: max(0, len(files) - MOST_FILES)]:
        path.unlink(missing_ok=True)


def main() -> None:
    """Arguments: the parent's process id, and those of `python -m kernels`."""
    die_with_parent(int(sys.argv[1]))
    os.nice(LOWER_PRIORITY)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))
    from kernels.__main__ import main as kernels

    sys.exit(kernels(sys.argv[2:]))


if __name__ == "__main__":
    main()
