"""Measures the limits of the current device, from which the roofline floors are computed.

A GPU has two regimes. In a *burst*, a call by itself after a pause, its clocks are at their highest: so kernels are
timed one by one. *Settled* it works without a pause, and power holds the clocks down: matrix products lose most.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

BURST_PAUSE = 0.02
"""Seconds without work before each call of a burst."""
BURST_CALLS = 5
_GPU_BYTES = 8 * 2**30
_CPU_BYTES = 256 * 2**20
_GPU_SIDES = (4096, 8192)
_FP8_SINCE = (8, 9)
"""The lowest compute capability on which torch multiplies fp8."""
_CPU_SIDE = {"fp32": 1024, "bf16": 512, "fp16": 512}


def measure_ceilings(device: str | None = None, quick: bool = True) -> dict[str, Any]:
    """Limits in the shape of `workers.documents.measurement.Ceilings`: TB/s, TFLOP/s and µs.

    GPU: 16-byte reads over 8 GiB (less if memory is short) and the best cuBLAS rate, fp8 where the GPU supports it:
    under `burst` as single calls after pauses, and settled after 0.3 s of the work that was fastest so (2 s when not
    `quick`). CPU: all threads over 256 MiB, at most about 3 s in all, in one regime.
    """
    import torch

    device_type = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return _gpu(0.3 if quick else 2.0) if device_type.startswith("cuda") else _cpu()


def _gpu(warm_up: float) -> dict[str, Any]:
    import torch

    from kernels.measure.read_bandwidth import read_calls

    free, _ = torch.cuda.mem_get_info()
    size = min(_GPU_BYTES, free // 3) // 2**20 * 2**20
    source = torch.randint(-(2**31), 2**31 - 1, (size // 4,), dtype=torch.int32, device="cuda")
    reading, best = min(((_burst_seconds(call), call) for call in read_calls(source)), key=lambda pair: pair[0])
    copy = partial(torch.empty_like(source).copy_, source)
    burst = _rates(size / reading, 2 * size / _burst_seconds(copy), {})
    settled = _rates(size / _settled_seconds(best, warm_up), 2 * size / _settled_seconds(copy, warm_up), {})
    del source, copy, best
    torch.cuda.empty_cache()
    names = [*_CPU_SIDE, *(["fp8"] if torch.cuda.get_device_capability() >= _FP8_SINCE else [])]
    for name in names:
        sides = [gpu_side // 2 if name == "fp32" else gpu_side for gpu_side in _GPU_SIDES]
        products = [(2 * side**3 / 1e12, product(name, side, "cuda")) for side in sides]
        rates = [(tflop / _burst_seconds(call), tflop, call) for tflop, call in products]
        burst["matrix_tflops"][name], tflop, call = max(rates, key=itemgetter(0))
        settled["matrix_tflops"][name] = tflop / _settled_seconds(call, warm_up)
    return settled | {"launch_us": _gpu_launch() * 1e6, "burst": burst}


def _burst_seconds(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of BURST_CALLS calls with a cold cache, each after a pause; timed as kernels are."""
    import torch

    from kernels.measure.timing import CudaTimer

    timer, seconds = CudaTimer(torch.device("cuda")), []
    call()
    for _ in range(BURST_CALLS):
        torch.cuda.synchronize()
        time.sleep(BURST_PAUSE)
        seconds.append(timer(call) / 1000)
    return min(seconds)


def _settled_seconds(call: Callable[[], Any], warm_up: float) -> float:
    """Mean seconds of a call, the best of five runs of ten, after `warm_up` seconds of nothing else."""
    until = time.monotonic() + warm_up
    while time.monotonic() < until:
        gpu_seconds(call, 10)
    return min(gpu_seconds(call, 10) for _ in range(5))


def gpu_seconds(call: Callable[[], Any], repeats: int = 1) -> float:
    """Mean seconds of one call over `repeats`, by the device's own clock."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1000 / repeats


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
    return min(gpu_seconds(empty.zero_, 1000) for _ in range(3))


def _cpu() -> dict[str, Any]:
    import numpy as np
    import torch

    source = np.ones(_CPU_BYTES // 8, dtype=np.int64)
    target = np.empty_like(source)
    parts = [np.array_split(array, len(os.sched_getaffinity(0))) for array in (source, target)]
    with ThreadPoolExecutor(len(parts[0])) as pool:
        read = _CPU_BYTES / _cpu_seconds(lambda: list(pool.map(np.add.reduce, parts[0])))
        copy = 2 * _CPU_BYTES / _cpu_seconds(lambda: list(pool.map(np.copyto, parts[1], parts[0])))
    rates = {name: 2 * side**3 / _cpu_seconds(product(name, side, "cpu")) for name, side in _CPU_SIDE.items()}
    empty = torch.zeros(1)
    return _rates(read, copy, rates) | {"launch_us": _cpu_seconds(empty.zero_) * 1e6}


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


def _rates(read: float, copy: float, rates: dict[str, float]) -> dict[str, Any]:
    """The rates of one regime, from bytes/s and FLOP/s."""
    tflops = {name: rate / 1e12 for name, rate in rates.items()}
    return {"read_tbps": read / 1e12, "copy_tbps": copy / 1e12, "matrix_tflops": tflops}
