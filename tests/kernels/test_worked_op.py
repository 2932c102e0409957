"""The op of docs/examples: its case is read, its reference proves, its tolerance refuses what is wrong."""

import importlib
import sys
from typing import Annotated

import pytest
import torch
from pydantic import Field, TypeAdapter

from kernels import ops, registry
from kernels.hardware import GPUS
from kernels.proof import gate
from tests.kernels.worked_examples import installed

MODULES = ("kernels.ops.softcap", "kernels.fused.torch_softcap")


@pytest.fixture
def example(monkeypatch):
    """The op, its variant registered for one test."""
    registry.variants()
    monkeypatch.setattr(registry, "_variants", dict(registry._variants))
    for name in ("kernels.ops", "kernels.fused"):
        package = importlib.import_module(name)
        monkeypatch.setattr(package, "__path__", list(package.__path__))
    installed("kernels.ops", "kernels.fused")
    op, _ = (importlib.import_module(name) for name in MODULES)
    yield op.SoftcapCase
    for name in MODULES:
        del sys.modules[name]


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("shape", [(0, 8), (1, 1), (3, 33)])
def test_torch_passes_the_gate(example, dtype, shape):
    m, n = shape
    report = gate.check(registry.variant("torch_softcap"), example(m=m, n=n, dtype=dtype), "cpu")
    assert report.passed, report.sentence


def test_the_gate_refuses_a_variant_without_the_cap(example):
    class Uncapped(type(registry.variant("torch_softcap"))):
        name = "uncapped"

        def build(self, case, params):
            return torch.clone

    report = gate.check(Uncapped(), example(m=3, n=33, dtype="fp32"), "cpu")
    assert report.gate == "fail"


def test_generic_code_and_documents_know_the_case(example):
    case = example(m=4, n=8)
    assert (case.flops, case.least_bytes) == (96, 128)
    assert case.part == "caps"
    assert registry.variant(case.torch_variants[0]).serves(case, GPUS["cpu"]) is None
    case = example(m=2, n=8, cap=50.0)
    union = Annotated[ops.AnyCase | example, Field(discriminator="op")]
    assert TypeAdapter(union).validate_python(case.model_dump()) == case
