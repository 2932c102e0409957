"""Compiles the kernels of a run's plans on the host's CPUs, while the run's first stages load and measure the model.

A compiled kernel depends on shapes and not on weights, so one folder serves all organisations. A confined process with
a user of its own alone writes to it; it reads a run's config.json. Stages read the folder, by KERNELS_PREBUILT.
"""

import logging
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from kernels.cuda.nvrtc import PREBUILT
from kernels.hardware import GPUS, Gpu
from kernels.measure.cpu_threads import usable_cpus
from workers.config import WorkerConfig
from workers.confinement.bounds import Bounds, ResourceLimits
from workers.documents.gpu_class import single_gpu_class
from workers.documents.stages import StageInput
from workers.host import child
from workers.host.child_environment import template_environment
from workers.host.stage_files import CODE, ROOT, Folders, readable, user_of
from workers.prediction.precisions import lossy_refusal
from workers.prediction.predict import divides

log = logging.getLogger(__name__)

HOPPER = 90
"""The compute capability (x 10) whose kernels are CUDA C++ that is compiled here."""
LIMITS = ResourceLimits(cpu_seconds=600, memory_bytes=16 * 2**30)
MAX_JOBS, MAX_FILES = 4, 4000
"""Processes that compile at once, and files that are kept: the oldest make room for more."""
LOWER_PRIORITY = 10
LOWER = ("int8", "fp8", "nvfp4", "int4", "mxfp4")
"""The lower precisions of the megakernel's weights."""
FIRST_STAGES = ("admit", "baseline")


def folder_of(cache: Path) -> Path:
    return cache / "compiled"


def prebuilt(outer: Mapping[str, str], cache: Path) -> str:
    """KERNELS_PREBUILT for a stage: the operator's folders first, then the worker's own."""
    return os.pathsep.join(filter(None, [outer.get(PREBUILT, ""), str(folder_of(cache))]))


def start(document: StageInput, folders: Folders, config: WorkerConfig, outer: Mapping[str, str]) -> child.Child | None:
    """Start compiling in a confined process of lower priority, which `close` ends; None where the run has no such
    plans or is past its start, and where the process cannot be started: then stages compile what they need.
    """
    if document.stage not in FIRST_STAGES or document.model.kind != "decoder" or _gpu(document).sm != HOPPER:
        return None
    folder = folder_of(config.cache)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _prune(folder)
        code = _linked_code(config.cache / "compile-ahead")
        command = child.ChildCommand(
            __name__,
            ["compile", "--into", str(folder), "--model", str(folders.model), *_options(document)],
            template_environment(outer, code) | {"HOME": str(folder), "TMPDIR": str(folder)},
            cwd=code,
            log_file=config.cache / "compile-ahead.log",
        )
        closed = [config.data, config.cache]
        bounds = Bounds(
            readable=(*readable(outer, [], closed), *folders.read, str(code)),
            writable=(str(folder),),
            user=user_of(__name__),
            required=config.require_sandbox,
        )
        return child.Child(command, LIMITS, bounds, on_line=lambda line: None)
    except (OSError, child.ConfinementRefused) as error:
        log.warning("kernels not compiled ahead: %s", error)
        return None


def _linked_code(folder: Path) -> Path:
    """The folder with links to the code, where no stage can write: the root itself may hold the data directory."""
    folder.mkdir(exist_ok=True)
    for package in CODE:
        if (link := folder / package).resolve() != ROOT / package:
            link.unlink(missing_ok=True)
            link.symlink_to(ROOT / package)
    return folder


def _gpu(document: StageInput) -> Gpu:
    return GPUS[single_gpu_class(document.gpu_class)]


def _options(document: StageInput) -> Iterable[str]:
    """The arguments of `kernels compile` for the run's model, traffic, precisions and numbers of GPUs."""
    traffic, constraints = document.workload.traffic, document.workload.constraints
    jobs = min(MAX_JOBS, max(1, usable_cpus() // 4))
    sizes = {"batch": traffic.batch, "prompt": traffic.prompt_tokens, "tokens": traffic.output_tokens, "jobs": jobs}
    yield from ("--lacking", "--plans-only", "--no-server", "--gpu", _gpu(document).gpu_class)
    for name, value in sizes.items():
        yield from (f"--{name}", str(value))
    for weights in LOWER:
        if not lossy_refusal(weights, constraints, document.model):
            yield from ("--weights", weights)
    for gpus in (2, 4):
        if gpus <= document.gpus and divides(document.model, gpus):
            yield from ("--tensor-parallel-size", str(gpus))


def _prune(folder: Path) -> None:
    ages: list[tuple[float, Path]] = []
    for path in folder.iterdir():
        with suppress(OSError):  # another worker's, which is renamed or removed meanwhile
            ages.append((path.stat().st_mtime, path))
    for _, path in sorted(ages)[: max(0, len(ages) - MAX_FILES)]:
        with suppress(OSError):
            path.unlink()


def main() -> None:
    """Arguments: those of `python -m kernels`."""
    os.nice(LOWER_PRIORITY)
    from kernels.__main__ import main as kernels

    sys.exit(kernels(sys.argv[1:]))


if __name__ == "__main__":
    main()
