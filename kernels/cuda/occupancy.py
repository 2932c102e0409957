"""How many clusters of blocks find room on a GPU at once, and a block's shared memory. Imports without torch."""

import sys
from functools import cache
from pathlib import Path
from typing import Any

from kernels.cuda import driver, nvrtc

MAX_SHARED_BYTES = 227 * 1024
"""Bytes of shared memory of a block on sm_90 (CUDA C++ Programming Guide); a GPU test compares the driver's answer."""

RESERVED = 1024
"""Bytes of an SM's shared memory that CUDA takes for each block. Same source."""

SHARED_HALF = (MAX_SHARED_BYTES + RESERVED) // 2 - RESERVED
"""Bytes of a block that leave room for a second one on its SM."""

H200_CLUSTERS = {1: 132, 2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15}
"""Clusters that an H200 runs at once, a block an SM (`cuOccupancyMaxActiveClusters`), for plans without a GPU."""

EMPTY_BUILD = nvrtc.Build(Path(__file__).with_name("empty.cu"))


def max_active_clusters(size: int, threads: int, shared_bytes: int, kernel: Any = None) -> int:
    """How many clusters of `size` blocks the current GPU runs at once; without a GPU, how many an H200 runs.

    A block has `threads` threads and `shared_bytes` bytes of dynamic shared memory. `kernel` is what `nvrtc.load`
    returned: its registers and static shared memory count too. Without one, threads and shared memory alone limit the
    clusters.

    The driver is asked where torch is imported and its current GPU has compute capability 9.0. Elsewhere the answer is
    `H200_CLUSTERS`. ValueError is raised where two blocks would fit on an SM, and for a size that it lacks.
    Raises RuntimeError with CUDA's code.
    """
    device = current_hopper()
    if device is not None:
        if kernel is None:
            return _max_active_empty(device, size, threads, shared_bytes)
        return driver.max_active_clusters(kernel.kernel.ptr, size, threads, shared_bytes)
    if size not in H200_CLUSTERS or shared_bytes <= SHARED_HALF:
        raise ValueError(f"clusters of {size} blocks with {shared_bytes} bytes: only a GPU tells how many find room")
    return H200_CLUSTERS[size]


def current_hopper() -> int | None:
    """The index of torch's current GPU, if it has compute capability 9.0."""
    torch = sys.modules.get("torch")  # a process that has not imported it only plans
    if torch is None or not torch.cuda.is_available():
        return None
    device = int(torch.cuda.current_device())
    return device if torch.cuda.get_device_capability(device) == (9, 0) else None


@cache
def _max_active_empty(device: int, size: int, threads: int, shared_bytes: int) -> int:
    return driver.max_active_clusters(empty_kernel(device), size, threads, shared_bytes)


def empty_kernel(device: int) -> int:
    """The CUfunction of `empty` on a GPU, whose context becomes that of this thread."""
    import cupy

    cupy.cuda.runtime.setDevice(device)
    return int(_load_empty(device).kernel.ptr)


@cache
def _load_empty(device: int) -> Any:
    """`empty` on the current GPU, kept: its CUfunction is valid as long as its module is."""
    return nvrtc.load(EMPTY_BUILD, "empty", MAX_SHARED_BYTES)
