"""Measures the limits of the current device, from which the roofline floors are computed."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_GPU_BYTES = 8 * 2**30
_CPU_BYTES = 256 * 2**20
_GPU_SIDES = (4096, 8192)
_FP8_SINCE = (8, 9)
"""The lowest compute capability on which torch multiplies fp8."""
_CPU_SIDE = {"fp32": 1024, "bf16": 512, "fp16": 512}


def measure_ceilings(device: str | None = None, quick: bool = True) -> dict[str, Any]:
    """Limits in the shape of `workers.documents.measurement.Ceilings`: TB/s, TFLOP/s and µs.

    GPU: 16-byte reads over 8 GiB (less if memory is short), the best cuBLAS rate after a warm-up of 0.3 s (2 s when not
    `quick`), fp8 where the GPU supports it. CPU: all threads over 256 MiB, at most about 3 s in all.
    """
    import torch

    wanted = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return _gpu(0.3 if quick else 2.0) if wanted.startswith("cuda") else _cpu()


def _gpu(warm_up: float) -> dict[str, Any]:
    import torch

    from kernels.measure.read_bandwidth import best_read_seconds

    free, _ = torch.cuda.mem_get_info()
    size = min(_GPU_BYTES, free // 3) // 2**20 * 2**20
    source = torch.randint(-(2**31), 2**31 - 1, (size // 4,), dtype=torch.int32, device="cuda")
    read = size / best_read_seconds(source)
    target = torch.empty_like(source)
    copy = 2 * size / min(_gpu_seconds(partial(target.copy_, source)) for _ in range(5))
    del source, target
    torch.cuda.empty_cache()
    names = [*_CPU_SIDE, *(["fp8"] if torch.cuda.get_device_capability() >= _FP8_SINCE else [])]
    rates = {name: max(_gpu_matrix_rate(name, side, warm_up) for side in _GPU_SIDES) for name in names}
    return _document(read, copy, rates, _gpu_launch())


def _gpu_seconds(call: Callable[[], Any], repeats: int = 1) -> float:
    """Mean seconds of one call over `repeats`, by the device's own clock."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1000 / repeats


def _gpu_matrix_rate(name: str, side: int, warm_up: float) -> float:
    if name == "fp32":
        side //= 2
    multiply = product(name, side, "cuda")
    until = time.monotonic() + warm_up
    while time.monotonic() < until:
        _gpu_seconds(multiply, 10)
    return 2 * side**3 / min(_gpu_seconds(multiply, 10) for _ in range(5))


def product(name: str, side: int, device: str) -> "Callable[[], torch.Tensor]":
    """torch's product of two random matrices [side, side] in the precision; of fp8 (e4m3, one scale each) in bf16."""
    import torch

    from kernels.dtypes import DTYPES

    left, right = (torch.randn(side, side, device=device) for _ in range(2))
    if name != "fp8":
        return partial(torch.mm, left.to(DTYPES[name]), right.to(DTYPES[name]))
    one = torch.ones((), device=device)
    codes, transposed = left.to(torch.float8_e4m3fn), right.to(torch.float8_e4m3fn).t()
    return partial(torch._scaled_mm, codes, transposed, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def _gpu_launch() -> float:
    import torch

    empty = torch.zeros(1, device="cuda")
    return min(_gpu_seconds(empty.zero_, 1000) for _ in range(3))


def _cpu() -> dict[str, Any]:
    import numpy as np
    import torch

    source = np.ones(_CPU_BYTES // 8, dtype=np.int64)
    target = np.empty_like(source)
    parts = [np.array_split(array, len(os.sched_getaffinity(0))) for array in (source, target)]
    with ThreadPoolExecutor(len(parts[0])) as pool:
        read = _CPU_BYTES / _cpu_seconds(lambda: list(pool.map(np.add.reduce, parts[0])))
        copy = 2 * _CPU_BYTES / _cpu_seconds(lambda: list(pool.map(np.copyto, parts[1], parts[0])))
    rates = {name: _cpu_matrix_rate(name, side) for name, side in _CPU_SIDE.items()}
    empty = torch.zeros(1)
    return _document(read, copy, rates, _cpu_seconds(empty.zero_))


def _cpu_matrix_rate(name: str, side: int) -> float:
    return 2 * side**3 / _cpu_seconds(product(name, side, "cpu"))


def _cpu_seconds(call: Callable[[], Any]) -> float:
    """Seconds of the fastest call within a third of a second (at least two), after one warm-up call."""
    call()
    times: list[float] = []
    until = time.perf_counter() + 0.33
    while len(times) < 2 or time.perf_counter() < until:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def _document(read: float, copy: float, rates: dict[str, float], launch: float) -> dict[str, Any]:
    """The document, from bytes/s, FLOP/s and seconds."""
    return {
        "read_tbps": read / 1e12,
        "copy_tbps": copy / 1e12,
        "matrix_tflops": {name: rate / 1e12 for name, rate in rates.items()},
        "launch_us": launch * 1e6,
    }
