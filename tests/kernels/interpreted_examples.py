"""The Triton example of docs/examples through the gate, in Triton's interpreter."""

import importlib

import pytest

from kernels import registry
from kernels.hardware import GPUS
from kernels.ops import LinearCase
from kernels.proof import gate
from tests.kernels.worked_examples import installed


@pytest.fixture(scope="module")
def gemv():
    installed("kernels.gemm")
    importlib.import_module("kernels.gemm.gemv_triton")
    return registry.variant("gemv_triton")


@pytest.mark.parametrize(
    ("n", "k", "dtype", "position"),
    [(7, 520, "fp16", 0), (7, 520, "fp16", 1), (7, 520, "fp16", 2), (64, 96, "fp32", 0)],
)
def test_it_passes_the_gate_with_all_its_params(gemv, n, k, dtype, position):
    case = LinearCase(m=1, n=n, k=k, dtype=dtype, weights=dtype)
    assert gemv.serves(case, GPUS["h200"]) is None
    report = gate.check(gemv, case, "cpu", gemv.space(case)[position])
    assert report.passed, report.sentence
