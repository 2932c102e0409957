"""What torch offers passes the gate at random shapes, and says in a sentence what it cannot do."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import registry
from kernels.gemm.torch_linear import _sum_of_halves
from kernels.hardware import GPUS
from kernels.ops import OPS, AttentionCase, GatedCase, LinearCase, LmHeadCase, RmsNormCase, RopeCase
from kernels.proof import gate

DTYPES = st.sampled_from(["fp32", "bf16", "fp16"])
SIZES = st.integers(1, 40)
FEW = settings(max_examples=12, deadline=None, derandomize=True)


def passes(case):
    """Gates every variant that serves the case on the CPU and builds at once."""
    able, refused = registry.offers(case, GPUS["cpu"])
    for variant in able:
        if not variant.build_seconds:
            report = gate.check(variant, case, "cpu")
            assert report.passed, f"{variant.name} {case.key}: {report.sentence}"
    assert all(refusal.reason for refusal in refused.values())
    return {variant.name for variant in able}


@FEW
@given(m=SIZES, n=SIZES, k=SIZES, dtype=DTYPES, epilogue=st.sampled_from(["none", "bias", "residual", "swiglu"]))
def test_linear(m, n, k, dtype, epilogue):
    case = LinearCase(m=m, n=n, k=k, dtype=dtype, weights=dtype, epilogue=epilogue)
    assert "torch_linear" in passes(case)


@FEW
@given(m=SIZES, n=SIZES, k=st.integers(2, 40), dtype=DTYPES, epilogue=st.sampled_from(["none", "bias"]))
def test_int8(m, n, k, dtype, epilogue):
    assert passes(LinearCase(m=m, n=n, k=k, dtype=dtype, weights="int8", epilogue=epilogue)) == {"int8_dynamic_cpu"}


def test_int8_sums_by_halves_are_those_of_one_product():
    """What a CPU without VNNI instructions does."""
    x, w = (torch.randint(-127, 128, shape, dtype=torch.int8) for shape in ((9, 40), (33, 40)))
    x[0], w[0], w[1] = 127, 127, -127
    assert torch.equal(_sum_of_halves(x, w.t()).long(), x.long() @ w.t().long())


@FEW
@given(
    batch=st.integers(1, 3),
    heads=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    head_dim=st.sampled_from([8, 24, 64]),
    q_len=SIZES,
    more=st.integers(0, 30),
    causal=st.booleans(),
    window=st.sampled_from([None, 1, 7]),
    dtype=DTYPES,
)
def test_attention(batch, heads, head_dim, q_len, more, causal, window, dtype):
    kv_heads, group = heads
    sizes = {"head_dim": head_dim, "heads": kv_heads * group, "kv_heads": kv_heads, "batch": batch, "q_len": q_len}
    how = {"causal": causal, "dtype": dtype, "kv_dtype": dtype, "window": window if causal else None}
    case = AttentionCase(kind="decode" if q_len == 1 else "prefill", kv_len=q_len + more, **sizes, **how)
    assert passes(case) == {"sdpa_math", "sdpa_flash"}


@FEW
@given(m=SIZES, n=SIZES, dtype=DTYPES, residual=st.booleans(), activation=st.sampled_from(["silu", "gelu"]))
def test_small_ops(m, n, dtype, residual, activation):
    assert passes(RmsNormCase(m=m, n=n, residual=residual, dtype=dtype))
    assert passes(GatedCase(m=m, n=n, activation=activation, dtype=dtype))
    assert passes(RopeCase(batch=1, q_len=m, heads=4, kv_heads=2, head_dim=2 * n, dtype=dtype))
    assert passes(LmHeadCase(m=m, vocab=n, k=16, dtype=dtype, weights=dtype))


APPEND = RopeCase(batch=2, q_len=3, heads=4, kv_heads=2, head_dim=8, append=True, paged=True, kv_dtype="fp8")


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_an_append_to_a_cache_in_fp8(dtype):
    assert "torch_rope" in passes(APPEND.model_copy(update={"dtype": dtype}))


@pytest.mark.parametrize("wrong", [lambda rows, scale: rows / scale[:, None], lambda rows, scale: rows / scale.mean()])
def test_an_append_that_does_not_saturate_or_takes_another_scale_fails(wrong, monkeypatch):
    """The first leaves what is too large as torch's older conversions do, NaN."""

    def stored(rows, scale):
        result = wrong(rows, scale)
        return result.masked_fill(result.abs() > 464, math.nan)

    monkeypatch.setattr("kernels.fused.torch_fused.scale_kv", stored)
    report = gate.check(registry.variant("torch_rope"), APPEND, "cpu")
    assert (report.passed, report.gate) == (False, "fail")


BASE = AttentionCase(kind="prefill", head_dim=64, heads=4, kv_heads=4, batch=1, q_len=8, kv_len=8)


@pytest.mark.gpu
@pytest.mark.parametrize("length", [(128, 128), (1, 300)])
def test_every_backend_passes_on_the_gpu(length):
    q_len, kv_len = length
    kind = "decode" if q_len == 1 else "prefill"
    case = AttentionCase(kind=kind, head_dim=64, heads=8, kv_heads=2, batch=2, q_len=q_len, kv_len=kv_len)
    for variant in registry.variants("attention"):
        if variant.serves(case, GPUS["h200"]) is None:
            report = gate.check(variant, case, "cuda")
            assert report.passed, f"{variant.name}: {report.sentence}"


def test_the_call_of_every_op_is_documented():
    calls = registry.Variant.__doc__ or ""
    assert [op for op in OPS if op != "model" and f"- {op}: `f(" not in calls] == []
