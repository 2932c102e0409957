"""The loops that measure limits compile to what they shall measure, for every generation; a CPU says what it lacks."""

import ctypes
import gc
import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernels.cuda import driver, launch, nvrtc
from kernels.hardware import GENERATIONS, GPUS
from kernels.measure import limits
from tests.kernels.compiling import cubin, sass

CODE = re.compile(r"/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\w+ )?([A-Z][\w.]*)")
UNTOLD = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"


def test_the_machine_code_does_what_is_timed() -> None:
    log, code = sass(limits.SOURCE, {"THREADS": limits.THREADS}, "sm_90a")
    assert log.count(UNTOLD) == 3
    of_kernel = dict(re.findall(r"Function : (\w+)\n(.*?)(?=Function : |\Z)", code, re.DOTALL))
    names = {entry: CODE.findall(of_kernel[entry]) for entry in limits.ROUNDS}
    assert limits.READ_BYTES == 8 * 16 * limits.THREADS
    assert names["shared_reads"].count("LDS.128") == 8, "no read of the loop is merged with another or moved out of it"
    assert any(name.startswith("BAR.SYNC") for name in names["block_barriers"])
    barrier = names["grid_barriers"]
    assert sum(name.startswith("BAR.SYNC") for name in barrier) >= 2
    assert any(name.startswith(("RED.E.ADD", "REDG.E.ADD")) for name in barrier)
    assert any(name.startswith("LDG.E.STRONG.GPU") for name in barrier)


@pytest.mark.parametrize("sm", [min(GENERATIONS), max(GENERATIONS)])
def test_it_compiles_for_every_generation(sm: int) -> None:
    log, _ = cubin(limits.SOURCE, {"THREADS": limits.THREADS}, f"sm_{sm}", limits.SOURCE.parent)
    assert log.count(UNTOLD) == 3


def test_a_cpu_says_why_it_has_none() -> None:
    found = limits.measure_limits("cpu")
    assert found == {
        "absent": {
            "block_barrier_us": "A CPU has no thread blocks.",
            "grid_barrier_us": "A CPU has no thread blocks.",
            "shared_tbps": "A CPU has no shared memory that programs address.",
            "exchange_tbps": "Fewer than two GPUs are visible.",
            "exchange_us": "Fewer than two GPUs are visible.",
        }
    }


def test_a_launch_keeps_its_arguments_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reads them through pointers: what they point to must not be freed before the call."""
    seen = []

    def launched(config: Any, function: Any, arguments: Any, extra: Any) -> int:
        seen.append([ctypes.cast(each, ctypes.POINTER(ctypes.c_int64))[0] for each in arguments._obj])
        return 0

    kernel = SimpleNamespace(kernel=SimpleNamespace(ptr=99))
    monkeypatch.setattr(driver, "driver", lambda: SimpleNamespace(cuLaunchKernelEx=launched))
    monkeypatch.setattr(launch, "current_stream", lambda: (0, 0))
    monkeypatch.setattr(nvrtc, "load", lambda build, entry: kernel)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    word = torch.zeros(1, dtype=torch.int32)
    calls = [limits._launch("block_barriers", 1, word, rounds) for rounds in (5, 7)]
    gc.collect()
    others = [ctypes.c_int64(-1) for _ in range(1000)]  # what was freed would be written over
    for call in calls:
        call()
    assert seen == [[word.data_ptr(), 5], [word.data_ptr(), 7]]
    others.clear()


@pytest.mark.gpu
def test_limits_of_a_gpu_are_plausible() -> None:
    """Shared memory gives 128 bytes a clock on each SM at most."""
    from kernels.measure.environment import environment_info

    found = limits.measure_limits("cuda")
    sheet = GPUS[environment_info()["gpu_class"]]
    assert 0 < found["block_barrier_us"] < 1
    assert found["block_barrier_us"] < found["grid_barrier_us"] < 20
    most = sheet.sms * 128 * sheet.max_clock_ghz / 1000
    assert 0.4 * most < found["shared_tbps"] <= 1.02 * most
    several = torch.cuda.device_count() > 1
    assert ("exchange_tbps" in found) == several
    assert bool(found["absent"]) != several
