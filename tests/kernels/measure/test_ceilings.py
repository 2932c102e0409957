"""The device's facts, clocks and measured limits fit the documents."""

import ctypes
import gc
import os
import re
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernels.cuda import driver, launch, nvrtc
from kernels.hardware import GENERATIONS, GPUS
from kernels.measure import limits
from kernels.measure.ceilings import measure_ceilings, product
from kernels.measure.environment import environment_info
from kernels.measure.roofline import burst_rates, floor_ms
from kernels.measure.telemetry import TelemetrySampler, _OthersCpuTime
from kernels.ops import LinearCase
from tests.kernels.compiling import cubin, sass
from tests.rival_programs import rival_programs
from tests.waiting import wait_for
from workers.documents import measurement


def test_here_names_the_device_and_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_LEASE_ID", "lease-7")
    environment = measurement.Environment(**environment_info(device="cpu"))
    assert environment.gpu_class == "cpu"
    assert environment.lease_id == "lease-7"
    assert environment.versions["torch"] == torch.__version__


def test_ceilings_of_a_cpu_are_plausible() -> None:
    result = measurement.Ceilings(**measure_ceilings("cpu"))
    assert 1e-4 < result.read_tbps < 2
    assert 1e-4 < result.copy_tbps < 2
    assert set(result.matrix_tflops) == {"fp32", "bf16", "fp16"}
    assert 0.01 < result.launch_us < 1000
    assert result.burst is None
    assert result.of_single_calls is result


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16", "fp8"])
def test_each_precision_multiplies_what_it_was_given(name: str) -> None:
    multiply = product(name, 64, "cpu")
    left, right = (arg.float() for arg in multiply.args)  # type: ignore[attr-defined]
    assert torch.allclose(multiply().float(), left @ right, rtol=0.01, atol=0.05)


def test_floors_are_of_the_regime_that_kernels_are_timed_in() -> None:
    settled = {"read_tbps": 4.6, "copy_tbps": 4.2, "matrix_tflops": {"bf16": 696.0}, "launch_us": 3.8}
    both = settled | {"burst": {"read_tbps": 4.7, "copy_tbps": 4.3, "matrix_tflops": {"bf16": 810.0}}}
    case = LinearCase(m=8192, n=8192, k=8192)
    assert floor_ms(case, burst_rates(settled)) == pytest.approx(case.flops / 696e9)
    assert floor_ms(case, burst_rates(both)) == pytest.approx(case.flops / 810e9)
    assert measurement.Ceilings(**both).of_single_calls.read_tbps == 4.7
    assert measurement.Ceilings(**settled).of_single_calls.read_tbps == 4.6


@pytest.mark.gpu
def test_ceilings_of_a_gpu_lie_under_its_datasheet() -> None:
    from kernels.hardware import GPUS

    environment = environment_info()
    result = measurement.Ceilings(**measure_ceilings("cuda"))
    sheet = GPUS[environment["gpu_class"]]
    assert 0.7 * sheet.memory_tbps < result.read_tbps < sheet.memory_tbps
    assert 0.5 * sheet.bf16_tflops < result.matrix_tflops["bf16"] < sheet.impossible_tflops
    assert 0.95 * result.read_tbps < result.burst.read_tbps < sheet.memory_tbps
    assert 0.98 * result.matrix_tflops["bf16"] < result.burst.matrix_tflops["bf16"] < sheet.impossible_tflops
    if sheet.sm >= 89:
        assert 0.5 * sheet.fp8_tflops < result.matrix_tflops["fp8"] < 2 * sheet.impossible_tflops


def test_telemetry_samples_while_it_runs() -> None:
    with TelemetrySampler("cpu", interval=0.01) as telemetry:
        wait_for(lambda: len(telemetry._samples) >= 3, 120, "the third sample")
    summary = measurement.Telemetry(**telemetry.summary())
    if summary.sm_mhz_median is not None:
        assert summary.sm_mhz_min <= summary.sm_mhz_median <= summary.sm_mhz_max  # type: ignore[operator]


def test_a_machine_that_is_shared_says_so() -> None:
    with TelemetrySampler("cpu", interval=0.1) as telemetry, rival_programs(1):
        time.sleep(1)
    assert telemetry.summary()["others_cpu_share"] > 0.25 / (os.cpu_count() or 1)


def test_what_this_process_started_is_no_other_program() -> None:
    own = _OthersCpuTime._now()[2]
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        wait_for(lambda: _OthersCpuTime._now()[2] > own + 0.2, 120, "the child's CPU time")
        child.kill()
    assert _OthersCpuTime._now()[2] > own + 0.2, "what has ended counts as its parent's"


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
    rates = limits.measure_limits("cpu")
    assert rates == {
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
        seen.append([ctypes.cast(item, ctypes.POINTER(ctypes.c_int64))[0] for item in arguments._obj])
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

    rates = limits.measure_limits("cuda")
    sheet = GPUS[environment_info()["gpu_class"]]
    assert 0 < rates["block_barrier_us"] < 1
    assert rates["block_barrier_us"] < rates["grid_barrier_us"] < 20
    most = sheet.sms * 128 * sheet.max_clock_ghz / 1000
    assert 0.4 * most < rates["shared_tbps"] <= 1.02 * most
    several = torch.cuda.device_count() > 1
    assert ("exchange_tbps" in rates) == several
    assert bool(rates["absent"]) != several
