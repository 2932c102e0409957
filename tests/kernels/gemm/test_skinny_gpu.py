"""The skinny product on a GPU: right for every weight, epilogue and tile config, alone and with PDL, for any input."""

import pytest
import torch

from kernels import registry
from kernels.gemm.skinny_tiles import configs
from kernels.ops import LinearCase
from kernels.proof import gate, inputs
from kernels.quant.formats import INT4
from tests.kernels.gemm.pdl_chain import assert_same_bits

pytestmark = pytest.mark.gpu
VARIANTS = {
    "same": "skinny", "int8": "skinny_int8", "fp8": "skinny_fp8", "nvfp4": "skinny_nvfp4",
    **{name: f"skinny_{name}" for name in INT4},
}  # fmt: skip


def case_of(kind, m, n, k, epilogue="none", dtype="bf16"):
    weights = dtype if kind == "same" else kind
    return LinearCase(m=m, n=n, k=k, dtype=dtype, weights=weights, epilogue=epilogue)


@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize(
    ("m", "n", "k", "epilogue"),
    [
        (1, 200, 1000, "none"), (3, 4104, 328, "bias"), (8, 72, 2048, "residual"), (9, 200, 520, "swiglu"),
        (16, 520, 4096, "rmsnorm_scale"), (5, 200, 1032, "rmsnorm_scale_bias"), (16, 200, 1032, "rmsnorm_scale_swiglu"),
        (2, 1, 8, "none"), (0, 8, 64, "none"),
    ],
)  # fmt: skip
def test_every_cut_passes_the_gate(kind, dtype, m, n, k, epilogue):
    variant, case = registry.variant(VARIANTS[kind]), case_of(kind, m, n, k, epilogue, dtype)
    for params in [*variant.space(case), {"pdl": True, "dynamic": True}]:
        report = gate.check(variant, case, "cuda", params)
        assert report.passed, (params, report.sentence)


@pytest.mark.parametrize("kind", VARIANTS)
def test_a_chain_that_overlaps_in_a_graph_gives_the_same_bits(kind):
    case = case_of(kind, 4, 2048, 2048, "residual")
    variant, drawn = registry.variant(VARIANTS[kind]), inputs.draw(case, "cuda", 3)
    assert_same_bits(variant, case, drawn["x"], variant.pack(case, {}, drawn["w"] / 2), drawn["residual"])


@pytest.mark.parametrize("kind", VARIANTS)
def test_units_that_blocks_claim_give_the_same_bits_launch_after_launch(kind):
    case = case_of(kind, 1, 8960, 1536, "rmsnorm_scale_swiglu")
    variant, drawn = registry.variant(VARIANTS[kind]), inputs.draw(case, "cuda", 4)
    weight = variant.pack(case, {}, drawn["w"])
    expected = variant.build(case, {})(drawn["x"], weight)
    dynamic = variant.build(case, {"pdl": True, "dynamic": True})
    for _ in range(50):
        assert torch.equal(dynamic(drawn["x"], weight), expected)


@pytest.mark.parametrize("kind", ["same", "fp8"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 3e38])
def test_a_row_with_no_answer_leaves_the_others_alone(kind, value):
    case = case_of(kind, 3, 64, 256)
    variant, drawn = registry.variant(VARIANTS[kind]), inputs.draw(case, "cuda", 5)
    call, weight = variant.build(case, {}), variant.pack(case, {}, drawn["w"])
    before = call(drawn["x"], weight)
    drawn["x"][1, 7] = value
    after = call(drawn["x"], weight)
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert not (after[1] == before[1]).any()
    if value != 3e38:
        assert not torch.isfinite(after[1]).any()


def test_a_misaligned_x_is_named():
    case = case_of("same", 1, 64, 64)
    variant = registry.variant("skinny")
    weight = variant.pack(case, {}, torch.zeros(64, 64, dtype=torch.bfloat16, device="cuda"))
    x = torch.zeros(65, dtype=torch.bfloat16, device="cuda")[1:].view(1, 64)
    with pytest.raises(ValueError, match="x begins at"):
        variant.build(case, {})(x, weight)


def test_a_weight_packed_for_another_cut_is_named():
    case, variant = case_of("same", 1, 96, 512), registry.variant("skinny")
    first, *others = configs("same", 1, 96, 512)
    other = next(item for item in others if item.units * item.unit_rows != first.units * first.unit_rows)
    params = {name: getattr(other, name) for name in ("splits", "k_warps", "row_tiles", "warps")}
    weight = variant.pack(case, params, torch.zeros(96, 512, dtype=torch.bfloat16, device="cuda"))
    with pytest.raises(ValueError, match=r"w\[0\]"):
        variant.build(case, {})(torch.zeros(1, 512, dtype=torch.bfloat16, device="cuda"), weight)
