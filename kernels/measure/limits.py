"""Limits of a GPU beside its rates: barriers, shared memory (an H200: 99 % of its clock), exchanges (not measured)."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.cuda.nvrtc import Build
from kernels.measure.ceilings import gpu_seconds

if TYPE_CHECKING:
    import torch

SOURCE = Path(__file__).with_name("limits.cu")
THREADS = 256
READ_BYTES = 8 * 16 * THREADS
"""What a block of `shared_reads` reads a round."""
ROUNDS = {"block_barriers": 20_000, "grid_barriers": 1_000, "shared_reads": 10_000}
BLOCKS_PER_SM = (1, 2, 4)
"""Candidates for the reads of shared memory; each block holds 32 KiB."""
RUNS = 5
PEER_COPY_BYTES = 2**30
NO_BLOCKS = "A CPU has no thread blocks."
NO_SHARED = "A CPU has no shared memory that programs address."
NO_CUPY = "CuPy is not installed, and CUDA C++ cannot be launched."
ONE_GPU = "Fewer than two GPUs are visible."


def measure_limits(device: str) -> dict[str, Any]:
    """`block_barrier_us`, `grid_barrier_us`, `shared_tbps`, `exchange_tbps` and `exchange_us`; `absent` says why not.

    A block barrier is of 256 threads, with one block on each SM; a grid barrier of as many blocks as there are SMs.
    Shared memory is read by all SMs together, 16 bytes a thread. The exchange is a copy of 1 GiB from the current GPU
    to another (less if memory is short), the slowest of these pairs, and the time of one of 4 bytes; the driver copies
    from peer to peer where it may.
    """
    if not device.startswith("cuda"):
        barriers = dict.fromkeys(("block_barrier_us", "grid_barrier_us"), NO_BLOCKS)
        return {"absent": barriers | {"shared_tbps": NO_SHARED} | _no_peer_copy()}
    import torch

    limits = _of_blocks()
    several = torch.cuda.device_count() > 1
    peer_copy = _peer_copy() if several else {}
    return limits | peer_copy | {"absent": limits.get("absent", {}) | ({} if several else _no_peer_copy())}


def _no_peer_copy() -> dict[str, str]:
    return dict.fromkeys(("exchange_tbps", "exchange_us"), ONE_GPU)


def _of_blocks() -> dict[str, Any]:
    import torch

    try:
        import cupy  # noqa: F401  # loads what NVRTC compiled
    except ImportError:
        return {"absent": dict.fromkeys(("block_barrier_us", "grid_barrier_us", "shared_tbps"), NO_CUPY)}
    sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    reading = min(_round_seconds("shared_reads", sms * blocks) / blocks for blocks in BLOCKS_PER_SM)
    return {
        "block_barrier_us": _round_seconds("block_barriers", sms) * 1e6,
        "grid_barrier_us": _round_seconds("grid_barriers", sms) * 1e6,
        "shared_tbps": sms * READ_BYTES / reading / 1e12,
    }


def _round_seconds(entry: str, blocks: int) -> float:
    """Seconds of one round of a loop: the time of twice as many rounds less the time of the rounds, by their number."""
    import torch

    word = torch.zeros(1, dtype=torch.int32, device="cuda")
    rounds = ROUNDS[entry]
    once, twice = (_launch(entry, blocks, word, count) for count in (rounds, 2 * rounds))
    for call in (once, twice):
        call()
    times = [min(gpu_seconds(call) for _ in range(RUNS)) for call in (once, twice)]
    return (times[1] - times[0]) / rounds


def build_of(sm: int) -> Build:
    """The source for a compute capability (× 10)."""
    return Build.of(SOURCE, {"THREADS": THREADS}, f"sm_{sm}")


def _launch(entry: str, blocks: int, word: "torch.Tensor", rounds: int) -> Callable[[], None]:
    """Zeroes `word` and enqueues the kernel, all blocks at once. Raises RuntimeError with CUDA's code."""
    import torch

    from kernels.cuda import nvrtc
    from kernels.cuda.driver import COOPERATIVE, Attribute, config, driver
    from kernels.cuda.launch import current_stream, pack_argument

    major, minor = torch.cuda.get_device_capability()
    kernel = nvrtc.load(build_of(10 * major + minor), entry)
    packed = [pack_argument(argument) for argument in (word.data_ptr(), rounds)]
    launch = config((blocks, 1, 1), THREADS, 0, current_stream()[1], Attribute(COOPERATIVE, 0, (1,)))

    def call() -> None:
        pointers = (ctypes.c_void_p * len(packed))(*map(ctypes.addressof, packed))  # `held` must outlive the launch
        function = ctypes.c_void_p(kernel.kernel.ptr)
        word.zero_()
        if failed := driver().cuLaunchKernelEx(ctypes.byref(launch), function, ctypes.byref(pointers), None):
            raise RuntimeError(f"{entry}: cuLaunchKernelEx failed with CUDA error {failed}")

    return call


def _peer_copy() -> dict[str, float]:
    import torch

    here = torch.cuda.current_device()
    others = [number for number in range(torch.cuda.device_count()) if number != here]
    free = min(torch.cuda.mem_get_info(number)[0] for number in (here, *others))
    large = torch.ones(min(PEER_COPY_BYTES, free // 3), dtype=torch.uint8, device=f"cuda:{here}")
    small = large[:4].clone()
    slowest = max(_copy_seconds(large, other, 1) for other in others)
    return {
        "exchange_tbps": large.numel() / slowest / 1e12,
        "exchange_us": max(_copy_seconds(small, other, 100) for other in others) * 1e6,
    }


def _copy_seconds(source: "torch.Tensor", other: int, repeats: int) -> float:
    """Seconds of the fastest copy of `source` to the GPU `other`; torch copies on the stream of the source's GPU."""
    import torch

    target = torch.empty_like(source, device=f"cuda:{other}")
    target.copy_(source)
    torch.cuda.synchronize(other)
    return min(gpu_seconds(lambda: target.copy_(source), repeats) for _ in range(RUNS))
