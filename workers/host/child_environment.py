"""The environment of a stage's process: the machine's own variables, no secret, and caches of its own."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernels.cuda.nvrtc import PREBUILT
from kernels.hardware import ENTRIES, NO_MULTICAST
from kernels.measure.cpu_threads import thread_settings
from kernels.measure.environment import commit
from workers.documents.gpu_class import gpus_of
from workers.host import vllm_folder

ROOT = Path(__file__).resolve().parents[2]
KEPT_NAMES = {"PATH", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV", "CC", "CXX"}
KEPT_NAMES |= {"LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"}
KEPT_NAMES |= {"WORKBENCH_LEASE_ID", ENTRIES}  # where the figures come from, and which GPUs are known
KEPT_NAMES |= {"TORCHINDUCTOR_VEC_ISA_OK"}  # 1 spares a CPU trial builds of 10 s for each new cache
KEPT_NAMES |= {PREBUILT}  # kernels that were compiled ahead; no stage can write there
KEPT_NAMES |= set(NO_MULTICAST)
USER = "stage"
KEPT_PREFIXES = ("CUDA_", "NVIDIA_", "OMP_", "MKL_", "TORCH_", "PYTORCH_", "TRITON_", "PYTHON", "WORKBENCH_STAGE_")
COMPILER_CACHES = {
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "TORCH_EXTENSIONS_DIR": "extensions",
    "CUPY_CACHE_DIR": "cupy",
    "CUDA_CACHE_PATH": "cuda",
    "KERNELS_CACHE": "kernels",
    "VLLM_CACHE_ROOT": "vllm",
}


def environment_with_gpus(outer: Mapping[str, str], gpu_class: str, uuids: Sequence[str]) -> dict[str, str]:
    """The environment in which a stage of a class of several GPUs sees these alone. NVLink's multicast stays off."""
    if gpus_of(gpu_class) == 1:
        return dict(outer)
    return {**outer, "CUDA_VISIBLE_DEVICES": ",".join(uuids), **NO_MULTICAST}


def template_environment(outer: Mapping[str, str], code: Path = ROOT) -> dict[str, str]:
    """The machine's own variables, as every stage has them, for a process that imports `code` and has no run."""
    kept = {name: value for name, value in outer.items() if name in KEPT_NAMES or name.startswith(KEPT_PREFIXES)}
    search = [str(code), *filter(None, outer.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(search),
        "WORKBENCH_COMMIT": commit(),
        **vllm_folder.variables(outer),
        "USER": USER,
        **thread_settings(outer),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def stage_environment(outer: Mapping[str, str], scratch: Path, caches: Path, code: Path = ROOT) -> dict[str, str]:
    """Variables for a stage that works in `scratch`, keeps what its compilers make under `caches`, and imports `code`.

    The stage does not see the repository, so it is told the commit, and where vLLM is when that is configured.
    """
    temporary = scratch / "tmp"
    temporary.mkdir(exist_ok=True)
    for directory in COMPILER_CACHES.values():
        (caches / directory).mkdir(parents=True, exist_ok=True)
    # Inductor keeps its precompiled C++ headers here, whatever its cache: else every run on a CPU compiles them again.
    defaults = temporary / f"torchinductor_{USER}"
    if not defaults.is_symlink():
        defaults.symlink_to(caches / COMPILER_CACHES["TORCHINDUCTOR_CACHE_DIR"], target_is_directory=True)
    return {
        **template_environment(outer, code),
        **{name: str(caches / directory) for name, directory in COMPILER_CACHES.items()},
        "HOME": str(scratch),
        "TMPDIR": str(temporary),
    }
