"""The variants of docs/examples: they refuse what they cannot run, are right, and compile without spills."""

import ctypes
import importlib
import sys

import pytest
import torch

from kernels import registry
from kernels.dtypes import DTYPES
from kernels.hardware import GPUS
from kernels.ops import LinearCase
from kernels.proof import gate
from tests.kernels.compiling import compile_log, resources
from tests.kernels.on_cpu.translate import library
from tests.kernels.triton_compiling import stack_bytes
from tests.kernels.worked_examples import installed

RUN = """
extern "C" int run(const ELEMENT* x, const ELEMENT* w, ELEMENT* y, int n, int k, int blocks) {
  return fibers::run(blocks, WARPS * 32, 1, 0, [&] { gemv(x, w, y, n, k); });
}"""
NAMES = ("gemv_triton", "gemv_cuda")


@pytest.fixture
def examples(monkeypatch):
    """The modules of the variants, registered for one test."""
    registry.variants()
    monkeypatch.setattr(registry, "_variants", dict(registry._variants))
    package = importlib.import_module("kernels.gemm")
    monkeypatch.setattr(package, "__path__", list(package.__path__))
    before = set(sys.modules)
    installed("kernels.gemm")
    yield {name: importlib.import_module(f"kernels.gemm.{name}") for name in NAMES}
    for name in set(sys.modules) - before:
        if name.startswith("kernels.gemm.gemv"):
            del sys.modules[name]


def case(dtype: str = "bf16", **change) -> LinearCase:
    return LinearCase(**{"m": 1, "n": 72, "k": 520, "dtype": dtype, "weights": dtype} | change)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("change", "field"),
    [({"m": 2}, "m is 2"), ({"weights": "fp8"}, "weights is fp8"), ({"epilogue": "swiglu"}, "epilogue is swiglu")],
)
def test_they_refuse_what_they_cannot_run(examples, name, change, field):
    refusal = registry.variant(name).serves(case(**change), GPUS["h200"])
    assert refusal.reason.startswith(field)


def test_they_serve_one_row_and_declare_the_names_of_their_kernels(examples):
    for name in NAMES:
        assert registry.variant(name).serves(case(), GPUS["h200"]) is None
        assert registry.variant(name).serves(case(), GPUS["cpu"]) is not None
    cuda = registry.variant("gemv_cuda")
    assert cuda.serves(case("fp32"), GPUS["h200"]) is not None
    assert cuda.serves(case(k=516), GPUS["h200"]) is not None
    assert cuda.serves(case(), GPUS["a100"]) is not None
    kernel = importlib.import_module("kernels.gemm.gemv_kernel")._gemv
    assert registry.variant("gemv_triton").kernels == (kernel.__name__,)
    source = examples["gemv_cuda"].SOURCE.read_text()
    assert all(f" {name}(const ELEMENT* x" in source for name in registry.variant("gemv_cuda").kernels)


def test_the_triton_example_compiles_without_spills(examples):
    kernel = importlib.import_module("kernels.gemm.gemv_kernel")._gemv
    for params in registry.variant("gemv_triton").space(case()):
        fixed = {"ROWS": params["rows"], "COLUMNS": params["columns"]}
        types = {"x": "*bf16", "w": "*bf16", "y": "*bf16", "n": "i32", "k": "i32"}
        assert stack_bytes(kernel, types, fixed, 4, 3) == 0


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_the_cuda_example_compiles_without_spills(examples, dtype):
    module = examples["gemv_cuda"]
    used = resources(compile_log(module.SOURCE, module.macros(case(dtype), 4)))
    assert (used.stack, used.spill_stores) == (0, 0)


@pytest.mark.parametrize(("dtype", "n", "k"), [("bf16", 7, 520), ("fp16", 9, 256)])
def test_the_cuda_example_is_right_on_a_cpu(examples, dtype, n, k):
    module = examples["gemv_cuda"]
    result = library(module.SOURCE, RUN, module.macros(case(dtype, n=n, k=k), 4))
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(rows, k, generator=generator).to(DTYPES[dtype]) for rows in (1, n))
    y = torch.full((1, n), torch.nan, dtype=x.dtype)
    assert result.run(*(ctypes.c_void_p(value.data_ptr()) for value in (x, w, y)), n, k, -(-n // 4)) == 0
    truth = x.double() @ w.double().T
    assert (y.double() - truth).abs().max() <= torch.finfo(y.dtype).eps * truth.abs().max()


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_they_pass_the_gate_on_a_gpu(examples, name, dtype):
    asked = case(dtype, n=3072, k=2048)
    for params in registry.variant(name).space(asked):
        report = gate.check(registry.variant(name), asked, "cuda", params)
        assert report.passed, report.sentence
