"""The device's facts, clocks and measured limits fit the documents."""

import os
import subprocess
import sys
import time

import pytest
import torch

from kernels.measure.ceilings import measure_ceilings, product
from kernels.measure.environment import Telemetry, environment_info, gpu_class_of
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


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16", "fp8"])
def test_each_precision_multiplies_what_it_was_given(name: str) -> None:
    multiply = product(name, 64, "cpu")
    left, right = (each.float() for each in multiply.args)  # type: ignore[attr-defined]
    assert torch.allclose(multiply().float(), left @ right, rtol=0.01, atol=0.05)


@pytest.mark.gpu
def test_ceilings_of_a_gpu_lie_under_its_datasheet() -> None:
    from kernels.hardware import GPUS

    environment = environment_info()
    found = measurement.Ceilings(**measure_ceilings("cuda"))
    sheet = GPUS[environment["gpu_class"]]
    assert 0.7 * sheet.memory_tbps < found.read_tbps < sheet.memory_tbps
    assert 0.5 * sheet.bf16_tflops < found.matrix_tflops["bf16"] < sheet.impossible_tflops
    if sheet.sm >= 89:
        assert 0.5 * sheet.fp8_tflops < found.matrix_tflops["fp8"] < 2 * sheet.impossible_tflops


def test_telemetry_samples_while_it_runs() -> None:
    with Telemetry("cpu", interval=0.01) as telemetry:
        time.sleep(0.1)
    summary = measurement.Telemetry(**telemetry.summary())
    assert len(telemetry._samples) >= 3
    if summary.sm_mhz_median is not None:
        assert summary.sm_mhz_min <= summary.sm_mhz_median <= summary.sm_mhz_max  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "known"), [("NVIDIA H200", "h200"), ("NVIDIA A100-SXM4-80GB", "a100"), ("Tesla T4", "tesla t4")]
)
def test_gpu_classes_are_found_by_name(name: str, known: str) -> None:
    assert gpu_class_of(name) == known


def test_a_machine_that_is_shared_says_so() -> None:
    spin = "while True: pass"
    with Telemetry("cpu", interval=0.1) as telemetry:
        rival = subprocess.Popen([sys.executable, "-c", spin])
        time.sleep(1)
        rival.kill()
        rival.wait()
    assert telemetry.summary()["others_cpu_share"] > 0.25 / (os.cpu_count() or 1)
