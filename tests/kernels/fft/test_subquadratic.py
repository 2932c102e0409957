"""NVIDIA's package of long convolutions, which runs on its GPUs only: a stand-in with its signature has its place."""

import sys
from pathlib import Path
from typing import Any

import pytest

from kernels import registry
from kernels.cases.fft import check
from kernels.fft.subquadratic import PACKAGE
from kernels.hardware import GPUS
from kernels.ops import FftConvCase
from kernels.proof import gate

STAND_IN = """
import torch

def fft_causal_conv1d(x, weight):
    taps = weight.shape[1]
    assert x.is_contiguous() and weight.is_contiguous() and x.dtype == weight.dtype and x.shape[1] == len(weight)
    assert taps >= 128 and taps & (taps - 1) == 0
    n = x.shape[-1] + taps
    product = torch.fft.rfft(x.float(), n=n) * torch.fft.rfft(weight.float(), n=n)
    return torch.fft.irfft(product, n=n)[..., : x.shape[-1]].to(x.dtype)
"""
VARIANT = registry.variant("subquadratic")


@pytest.fixture(autouse=True)
def none_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (PACKAGE, f"{PACKAGE}.fft_causal_conv1d"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, name)


def test_it_is_refused_where_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    refusal = VARIANT.serves(FftConvCase(batch=1, width=2, length=300, filter=300), GPUS["h200"])
    assert refusal is not None
    assert refusal.reason.startswith(f"{PACKAGE} is not installed")


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_gates_and_taps_around_it_pass_the_gate(dtype: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / PACKAGE).mkdir()
    (folder / "__init__.py").touch()
    (folder / "fft_causal_conv1d.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(str(tmp_path))
    served = [case for case in check(dtype, True) if VARIANT.serves(case, GPUS["h200"]) is None]
    assert {(case.gated, case.skip) for case in served} == {(True, True), (True, False), (False, False)}
    assert {case.filters for case in served} == {None, 2}
    for case in served:
        report = gate.check(VARIANT, case, "cpu")
        assert report.passed, f"{case.key}: {report.sentence}"
