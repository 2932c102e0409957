"""The fused Triton kernels under the interpreter: the accuracy gate at odd shapes, and what a direct call refuses."""

import pytest
import torch

from kernels.cases.fused import check_gated, check_rmsnorm, check_rope
from kernels.fused.gated_triton import Gated
from kernels.fused.rmsnorm_triton import RmsNorm
from kernels.fused.rope_triton import Rope, RopeAppend
from kernels.ops import GatedCase, RmsNormCase, RopeCase, reference
from kernels.ops.rmsnorm import rmsnorm as reference_rmsnorm
from kernels.ops.rope import rope as reference_rope
from kernels.proof import gate, inputs
from kernels.proof.calls import CACHES, outputs_of, rest_is_unchanged
from kernels.proof.reference_cache import ReferenceCache
from kernels.registry import variant
from tests.kernels.interpreting import assert_right

DTYPES = ("fp16", "fp32")


SMALL = (
    RmsNormCase(m=3, n=24, residual=True, dtype="fp16"),
    GatedCase(m=3, n=24, dtype="fp16"),
    RopeCase(batch=2, q_len=1, heads=2, kv_heads=1, head_dim=8, append=True, paged=True, dtype="fp16"),
)


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.op)
def test_they_pass_the_gate(case):
    own = variant(f"{case.op}_triton")
    report = gate.check(own, case, "cpu", own.space(case)[0])
    assert report.passed, report.sentence


def all_right(name, cases):
    for case in cases:
        first, *others = variant(name).space(case)
        assert_right(variant(name), case, first)
        for params in others:
            assert_right(variant(name), case, params, ("normal",))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_case_is_right(dtype):
    all_right("rmsnorm_triton", [case for case in check_rmsnorm(dtype, cpu=True) if case.quantise is None])
    all_right("gated_triton", check_gated(dtype, cpu=True))
    cases = [case for case in check_rope(dtype, cpu=True) if case.kv_dtype is None]
    all_right("rope_triton", cases[:: 1 if dtype == "fp16" else 3])


@pytest.mark.parametrize("residual", [False, True])
def test_rmsnorm_quantises_to_448(residual):
    """The interpreter rounds to fp8 wrongly, so the values are taken in float32 and rounded by torch."""
    case = RmsNormCase(m=5, n=320, residual=residual, dtype="fp16", quantise="fp8")
    drawn = inputs.draw(case, "cpu", 3)
    values, scale, *_ = RmsNorm(torch.float32, rows=2)(**drawn)
    truth = reference.compute(case, drawn)[0]
    assert values.abs().amax(dim=-1) == pytest.approx(448.0, rel=1e-5)
    assert scale.shape == (5, 1)
    torch.testing.assert_close((values * scale).double(), truth, rtol=1e-5, atol=1e-6)


FP8 = [case for case in check_rope("fp16", cpu=True) if case.kv_dtype is not None]


@pytest.mark.parametrize("kind", inputs.KINDS)
@pytest.mark.parametrize("case", FP8, ids=lambda case: case.key)
def test_an_append_divides_by_the_scales_and_saturates(case, kind):
    """The interpreter rounds to fp8 wrongly, so the caches are in float32 and rounded by torch."""
    drawn = inputs.draw(case, "cpu", 3, kind)
    expected, _ = gate.expect(variant("rope_triton"), case, {}, drawn, (kind, 3), ReferenceCache())
    wide = {name: drawn[name].float() for name in CACHES}
    answer = RopeAppend()(**drawn | wide)
    assert max(float(value[case.written_slots(drawn)].abs().max()) for value in wide.values()) == 448
    rounded = {name: cache.to(torch.float8_e4m3fn) for name, cache in wide.items()}
    comparisons = [*expected.compare_all(outputs_of(case, drawn | rounded, answer), "")]
    assert comparisons
    assert all(comparison.holds for comparison in comparisons)
    assert all(rest_is_unchanged(case, name, drawn[name], drawn | rounded) for name in CACHES)


def test_nan_stays_nan_beside_scales():
    drawn = inputs.draw(FP8[0], "cpu", 4)
    drawn["v"][0, 0, 1, 5] = float("nan")
    wide = {name: drawn[name].float() for name in CACHES}
    RopeAppend()(**drawn | wide)
    assert int(wide["v_cache"].isnan().sum()) == 1


def test_heads_may_lie_further_apart_than_int32_counts():
    """A view of [heads, tokens] that is transposed has a head's stride of a whole sequence, mostly never touched."""
    far = torch.empty(2**31 + 4096, dtype=torch.float16)
    q = far.as_strided((1, 1, 3, 16), (0, 0, 2**30 + 64, 1))
    q.copy_(torch.randn(q.shape, generator=torch.Generator().manual_seed(1)))
    near, angles = q.clone(), torch.rand(1, 1, 16, dtype=torch.float16)
    for given, expected in zip(Rope()(q, q, angles, angles), reference_rope(near, near, angles, angles), strict=True):
        torch.testing.assert_close(given, expected, rtol=1e-2, atol=1e-2)


def test_empty_tensors_give_empty_answers():
    assert Gated("silu")(torch.empty(0, 8)).shape == (0, 4)
    assert RmsNorm()(torch.empty(0, 8), torch.ones(8)).shape == (0, 8)
    q, k = Rope()(*(torch.empty(2, 0, heads, 8) for heads in (4, 2)), torch.empty(2, 0, 8), torch.empty(2, 0, 8))
    assert q.shape == (2, 0, 4, 8)
    assert k.shape == (2, 0, 2, 8)


def test_given_outputs_are_written():
    x, w = torch.randn(6, 40), torch.randn(40)
    out = torch.empty(6, 40), torch.empty(6, 40)
    norm = RmsNorm()
    for given in (x, x + 1):
        assert norm(given, w, given, out=out) is out
        torch.testing.assert_close(out, reference_rmsnorm(given, w, given))
    y = torch.empty(6, 20)
    assert Gated("silu")(x, out=y) is y
    torch.testing.assert_close(y, Gated("silu")(x))
    q, angles = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 8)
    made = torch.empty_like(q), torch.empty(2, 3, 2, 8)
    assert Rope()(q, q[:, :, :2], angles, angles, out=made) is made
    torch.testing.assert_close(made, reference_rope(q, q[:, :, :2], angles, angles))
    call = append_call()
    q = torch.empty_like(call["q"])
    assert RopeAppend()(**call, out=q) is q
    torch.testing.assert_close(q, reference_rope(*(call[name] for name in ("q", "k", "cos", "sin")))[0])


def test_rows_may_have_a_stride_and_any_alignment():
    x, w = torch.randn(6, 41)[:, 3:], torch.randn(38)
    torch.testing.assert_close(RmsNorm()(x, w), reference_rmsnorm(x, w)[0])
    packed = torch.randn(3, 1, 50)[..., 1:33].unflatten(-1, (4, 8))
    cos, sin = torch.randn(2, 3, 1, 8)
    q, k = Rope()(packed[:, :, :3], packed[:, :, 3:], cos, sin)
    torch.testing.assert_close((q, k), reference_rope(packed[:, :, :3], packed[:, :, 3:], cos, sin))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_inf_stay_in_their_row(value):
    x = torch.randn(3, 40)
    x[1, 7] = value
    y = RmsNorm(rows=2)(x, torch.ones(40))
    assert torch.isfinite(y[[0, 2]]).all()
    assert torch.isnan(y[1]).any()
    y = Gated("silu")(x)
    assert torch.isfinite(y[[0, 2]]).all()
    assert not torch.isfinite(y[1, 7])


def append_call():
    case = RopeCase(
        batch=2, q_len=3, heads=4, kv_heads=2, head_dim=8, append=True, paged=True, page_size=4, dtype="fp32"
    )
    return inputs.draw(case, "cpu", 0)


@pytest.mark.parametrize(
    ("name", "value"), [("position", [-5]), ("position", [1 << 40]), ("page_table", [[-1], [10_000]])]
)
def test_nothing_is_written_outside_the_cache(name, value):
    call = append_call()
    before = {cache: call[cache].clone() for cache in CACHES}
    call[name][:] = torch.tensor(value)
    RopeAppend()(**call)
    assert all(torch.equal(call[cache], before[cache]) for cache in CACHES)


WRONG = {
    "q": torch.zeros(2, 3, 4, 7), "k": torch.zeros(2, 4, 2, 8), "v": torch.zeros(2, 3, 2, 9),
    "cos": torch.zeros(2, 3, 9), "sin": torch.zeros(2, 3, 8, dtype=torch.int32), "k_cache": torch.zeros(2, 4, 3, 8),
    "v_cache": torch.zeros(27, 2, 8, 4).permute(0, 3, 1, 2), "position": torch.zeros(3, dtype=torch.int64),
    "page_table": torch.zeros(2, 11, dtype=torch.int64), "k_scale": torch.ones(3), "v_scale": torch.ones(2),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_append_names_the_wrong_argument(name):
    with pytest.raises(ValueError, match=f"^{name} "):
        RopeAppend()(**append_call() | {name: WRONG[name]})


def test_a_cache_in_fp8_needs_its_scales():
    drawn = inputs.draw(FP8[0], "cpu", 0)
    for name in ("k_scale", "v_scale"):
        with pytest.raises(ValueError, match=f"^{name} is missing and k_cache is torch.float8_e4m3fn"):
            RopeAppend()(**drawn | {name: None})


def test_norm_and_gate_name_the_wrong_argument():
    x = torch.zeros(2, 8)
    for name, call in {
        "x": lambda: RmsNorm()(torch.zeros(8, 2).T, torch.zeros(8)),
        "w": lambda: RmsNorm()(x, torch.zeros(7)),
        "residual": lambda: RmsNorm()(x, torch.zeros(8), x.half()),
        "gate_up": lambda: Gated("silu")(torch.zeros(2, 7)),
        "activation": lambda: Gated("relu"),
    }.items():
        with pytest.raises(ValueError, match=f"^{name} "):
            call()
