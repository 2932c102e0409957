"""The fused Triton kernels: compiled for Hopper without spills, honest about limits."""

from typing import get_args

import pytest

from kernels import registry
from kernels.cases import check_cases
from kernels.ops.gated import Activation
from kernels.proof import gate
from tests.kernels.triton_compiling import assembled, stack_bytes

MINE = ("rmsnorm_triton", "gated_triton", "rope_triton")


def types(kernel, fixed, **pointers):
    """The kernel's argument types: these pointers, and integers divisible by 16."""
    return {name: pointers.get(name, "i32:16") for name in kernel.arg_names if name not in fixed}


@pytest.mark.parametrize(
    ("rows", "block", "warps", "pdl"), [(1, 2048, 4, True), (2, 2048, 4, False), (1, 16384, 8, False)]
)
def test_rmsnorm_compiles_without_spills(rows, block, warps, pdl):
    from kernels.fused.rmsnorm_triton import Config, _rmsnorm

    config = Config(RESIDUAL=True, QUANTISE=True, ROWS=rows, BLOCK=block, PDL=pdl)
    types = dict.fromkeys(("x", "residual"), ("*bf16", "i32:16")) | {"out": ("*fp8e4nv", "*bf16", "*fp32")}
    types |= {"w": "*bf16", "m": "i32", "n": "i32:16", "eps": "fp32"}
    assert stack_bytes(_rmsnorm, types, {"C": config}, warps, 1) == 0


@pytest.mark.parametrize("activation", get_args(Activation))
def test_gated_compiles_without_spills(activation):
    from kernels.fused.gated_triton import _gated

    fixed = {"ACTIVATION": activation, "BLOCK": 1024, "PDL": activation != "gelu"}
    assert stack_bytes(_gated, types(_gated, fixed, gate_up="*bf16", y="*bf16"), fixed, 4, 1) == 0


def test_a_dependent_launch_waits_before_it_touches_memory():
    from kernels.fused.gated_triton import _gated

    fixed = {"ACTIVATION": "silu", "BLOCK": 1024, "PDL": True}
    ptx = assembled(_gated, types(_gated, fixed, gate_up="*bf16", y="*bf16"), fixed, 4, 1)["ptx"]
    assert ptx.index("griddepcontrol.launch_dependents") < ptx.index("griddepcontrol.wait") < ptx.index("ld.global")


@pytest.mark.parametrize(("page_size", "cache"), [(0, "*bf16"), (16, "*bf16"), (16, "*fp8e4nv")])
def test_rope_compiles_without_spills(page_size, cache):
    from kernels.fused.rope_triton import Config, _rope

    fp8 = cache == "*fp8e4nv"
    config = Config(HEADS=32, KV_HEADS=8, HALF=32, APPEND=True, PAGE_SIZE=page_size, SCALED=fp8, HEADS_BLOCK=32,
                    KV_BLOCK=8, HALF_BLOCK=32, PDL=not page_size)  # fmt: skip
    step = "i32:16"
    types = dict.fromkeys("qkv", ("*bf16", step, step, step)) | {"angles": ("*bf16", step, step) * 2, "q_len": step}
    scales = ("*fp32" if fp8 else "*bf16",) * 2
    types |= {"out": ("*bf16", cache, cache) + (step,) * 3}
    types |= {"slots": ("*i64", step, "*i32", step, step, step, *scales)}
    assert stack_bytes(_rope, types, {"C": config}, 4, 1) == 0
    assert ("cvt.rn.satfinite.e4m3x2.f32" in assembled(_rope, types, {"C": config}, 4, 1)["ptx"]) == fp8


@pytest.mark.gpu
@pytest.mark.parametrize("name", MINE)
def test_they_pass_the_gate_on_the_gpu(name):
    variant = registry.variant(name)
    for case in check_cases(variant.op, cpu=False)[::7]:  # `check` takes them all
        for params in variant.space(case):
            report = gate.check(variant, case, "cuda", params)
            assert report.passed, f"{case.key} {params}: {report.sentence}"
