"""The device's facts, clocks and measured limits fit the documents."""

import os
import subprocess
import sys
import time

import pytest
import torch

from kernels.measure.ceilings import measure_ceilings, product
from kernels.measure.environment import environment_info
from kernels.measure.roofline import floor_ms, in_burst
from kernels.measure.telemetry import TelemetrySampler, _OthersCpuTime
from kernels.ops import LinearCase
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
    found = measurement.Ceilings(**measure_ceilings("cpu"))
    assert 1e-4 < found.read_tbps < 2
    assert 1e-4 < found.copy_tbps < 2
    assert set(found.matrix_tflops) == {"fp32", "bf16", "fp16"}
    assert 0.01 < found.launch_us < 1000
    assert found.burst is None
    assert found.of_single_calls is found


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16", "fp8"])
def test_each_precision_multiplies_what_it_was_given(name: str) -> None:
    multiply = product(name, 64, "cpu")
    left, right = (arg.float() for arg in multiply.args)  # type: ignore[attr-defined]
    assert torch.allclose(multiply().float(), left @ right, rtol=0.01, atol=0.05)


def test_floors_are_of_the_regime_that_kernels_are_timed_in() -> None:
    settled = {"read_tbps": 4.6, "copy_tbps": 4.2, "matrix_tflops": {"bf16": 696.0}, "launch_us": 3.8}
    both = settled | {"burst": {"read_tbps": 4.7, "copy_tbps": 4.3, "matrix_tflops": {"bf16": 810.0}}}
    case = LinearCase(m=8192, n=8192, k=8192)
    assert floor_ms(case, in_burst(settled)) == pytest.approx(case.flops / 696e9)
    assert floor_ms(case, in_burst(both)) == pytest.approx(case.flops / 810e9)
    assert measurement.Ceilings(**both).of_single_calls.read_tbps == 4.7
    assert measurement.Ceilings(**settled).of_single_calls.read_tbps == 4.6


@pytest.mark.gpu
def test_ceilings_of_a_gpu_lie_under_its_datasheet() -> None:
    from kernels.hardware import GPUS

    environment = environment_info()
    found = measurement.Ceilings(**measure_ceilings("cuda"))
    sheet = GPUS[environment["gpu_class"]]
    assert 0.7 * sheet.memory_tbps < found.read_tbps < sheet.memory_tbps
    assert 0.5 * sheet.bf16_tflops < found.matrix_tflops["bf16"] < sheet.impossible_tflops
    assert found.burst is not None
    assert 0.95 * found.read_tbps < found.burst.read_tbps < sheet.memory_tbps
    assert 0.98 * found.matrix_tflops["bf16"] < found.burst.matrix_tflops["bf16"] < sheet.impossible_tflops
    if sheet.sm >= 89:
        assert 0.5 * sheet.fp8_tflops < found.matrix_tflops["fp8"] < 2 * sheet.impossible_tflops


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
