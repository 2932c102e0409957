"""GPUs are found by asking the driver's tool."""

from pathlib import Path

import pytest

from workbench.embedded.devices import Device, find_devices


def driver_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def test_every_known_gpu_gets_a_worker_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver_says(
        tmp_path, monkeypatch, "GPU-aa, NVIDIA H200\nGPU-bb, NVIDIA H100 80GB HBM3\nGPU-cc, NVIDIA A100-SXM4-80GB"
    )
    assert find_devices() == [Device("h200", "GPU-aa"), Device("h100", "GPU-bb"), Device("a100", "GPU-cc")]


def test_gpus_of_one_class_make_up_the_classes_of_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver_says(tmp_path, monkeypatch, "GPU-aa, NVIDIA H200\nGPU-bb, NVIDIA A100-SXM4-80GB\nGPU-cc, NVIDIA H200")
    assert find_devices()[3:] == [Device("h200x2", "GPU-aa,GPU-cc")]
    driver_says(tmp_path, monkeypatch, "\n".join(f"GPU-{number}, NVIDIA H200" for number in range(5)))
    assert find_devices()[5:] == [Device("h200x2", "GPU-0,GPU-1"), Device("h200x4", "GPU-0,GPU-1,GPU-2,GPU-3")]
    driver_says(tmp_path, monkeypatch, "GPU-aa, NVIDIA H100 80GB HBM3\nGPU-bb, NVIDIA H100 80GB HBM3")
    assert find_devices()[2:] == [Device("h100x2", "GPU-aa,GPU-bb")]


def test_an_unknown_gpu_leaves_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver_says(tmp_path, monkeypatch, "GPU-aa, GeForce GT 710")
    assert find_devices() == [Device("cpu")]


def test_without_a_driver_it_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert find_devices() == [Device("cpu")]
