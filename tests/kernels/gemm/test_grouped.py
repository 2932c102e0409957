"""Products of a mixture of experts: the cases, what the variants serve, that the kernel compiles and is right."""

from typing import Any

import pytest
import torch

from kernels.cases import check_cases
from kernels.cuda.occupancy import SHARED_MOST
from kernels.gemm import grouped_few_call, grouped_hopper, grouped_tiles
from kernels.gemm.grouped_call import W_BOX, by_columns, rows_apart
from kernels.hardware import GENERATIONS, GPUS, generation
from kernels.ops import GroupedCase
from kernels.proof import gate, inputs
from kernels.registry import variant
from tests.kernels.compiling import compile_log, resources


def case(**fields: Any) -> GroupedCase:
    return GroupedCase(**{"rows": 300, "experts": 4, "n": 264, "k": 320} | fields)


@pytest.mark.parametrize(("epilogue", "experts", "tiled"), [("swiglu", 128, True), ("none", 8, False)])
def test_it_compiles_without_spills(epilogue: str, experts: int, tiled: bool) -> None:
    macros, _ = grouped_tiles.constants(case(experts=experts, epilogue=epilogue), tiled)
    used = resources(log := compile_log(grouped_tiles.SOURCE, macros))
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
    assert "serialized" not in log


@pytest.mark.parametrize(("weights", "rows", "epilogue"), [("int8", 8, "swiglu"), ("mxfp4", 400, "swigluoai")])
def test_products_of_few_rows_compile_without_spills(weights: str, rows: int, epilogue: str) -> None:
    few = case(rows=rows, experts=128, epilogue=epilogue, weights=weights)
    used = resources(compile_log(grouped_few_call.SOURCE, grouped_few_call.constants(few, 4)))
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)


@pytest.mark.parametrize("epilogue", ["none", "swiglu"])
def test_any_number_of_experts_has_room(epilogue: str) -> None:
    for experts in range(1, grouped_hopper.MOST_EXPERTS + 1):
        found, shared_bytes = grouped_tiles.constants(case(experts=experts, epilogue=epilogue))
        assert found["STAGES"] >= 3
        assert shared_bytes <= SHARED_MOST


def test_the_product_for_blackwell_is_offered_on_sm_100_alone_and_says_that_it_never_ran() -> None:
    for name, scales in (("grouped_blackwell", None), ("grouped_blackwell_fp8", "row")):
        blackwell, shape = variant(name), case(scales=scales)
        assert blackwell.summary.endswith("compiles, emulated, never run on the chip")
        assert [sm for sm in GENERATIONS if blackwell.serves(shape, generation(sm)) is None] == [100]


def test_rows_that_fill_pairs_are_tried_by_pairs_first() -> None:
    assert variant("grouped_blackwell").space(case(rows=8192, n=4096))[0]["pair"]
    assert not variant("grouped_blackwell").space(case(rows=400, n=14_336))[0]["pair"]


def test_rows_fall_to_experts_in_order_and_to_some_not_at_all() -> None:
    drawn = inputs.draw(case(rows=40, experts=64), "cpu", 5)
    ends = drawn["ends"].tolist()
    assert ends == sorted(ends)
    assert ends[-1] == 40
    assert len(set(ends)) < 64


def test_a_box_of_tiles_holds_the_rows_that_the_descriptor_says() -> None:
    """As `multiply_cores` reads shared memory: 128 bytes from 8 rows to the next 8, COLUMNS · 16 bytes from 8 columns
    to the next 8, and within these 8 rows of 16 bytes.
    """
    w = torch.randn(3, 160, 96, generator=torch.Generator().manual_seed(2)).bfloat16()
    packed = variant("grouped_hopper").pack(case(n=160, k=96), {"tiled": True}, w)
    apart = torch.nn.functional.pad(packed.flatten(1), (0, 5 * 16 * 96))[:, : packed[0].numel()].unflatten(
        1, packed.shape[1:]
    )
    assert rows_apart(apart) == 15
    expert, column, k = 1, 32, 16
    first = k // 8, rows_apart(apart) * expert + column // 16, 0
    slices = [slice(begin, begin + size) for begin, size in zip(first, W_BOX, strict=True)]
    shared = by_columns(apart)[*slices].flatten()
    rows, columns = torch.arange(grouped_tiles.COLUMNS)[:, None], torch.arange(64)
    at = rows // 8 * 128 + columns // 8 * grouped_tiles.COLUMNS * 16 + rows % 8 * 16 + columns % 8 * 2
    assert torch.equal(shared[at // 2], w[expert, column : column + 128, k : k + 64])


@pytest.mark.parametrize("shape", check_cases("grouped", cpu=True), ids=lambda each: each.key)
def test_the_loop_is_right_on_a_cpu(shape: GroupedCase) -> None:
    report = gate.check(variant("torch_grouped_loop"), shape, "cpu")
    assert report.passed, report.sentence


@pytest.mark.gpu
@pytest.mark.parametrize("shape", check_cases("grouped", cpu=False), ids=lambda each: each.key)
def test_it_is_right(shape: GroupedCase) -> None:
    blackwell = torch.cuda.get_device_capability() == (10, 0)
    by_hand = variant("grouped_blackwell" + "_fp8" * bool(shape.scales) if blackwell else "grouped_hopper")
    if by_hand.serves(shape, GPUS["b200" if blackwell else "h200"]) is None:
        whole = not blackwell and shape.weight_rows % 16 == shape.k % 16 == 0
        for params in (*by_hand.space(shape), *([{"tiled": True}] if whole else [])):
            report = gate.check(by_hand, shape, "cuda", params)
            assert report.passed, f"{params}: {report.sentence}"


@pytest.mark.gpu
def test_nan_and_infinity_stay_in_their_rows() -> None:
    shape = case(n=64, k=64)
    drawn = inputs.draw(shape, "cuda", 1)
    drawn["x"][7, 3], drawn["x"][200, 5] = float("nan"), float("inf")
    y = variant("grouped_hopper").build(shape, {})(**drawn)
    assert y[7].isnan().all()
    assert not y[200].isfinite().any()
    assert int((~y.isfinite()).any(dim=1).sum()) == 2


@pytest.mark.gpu
def test_experts_of_every_size_are_right() -> None:
    """Each width that a tile can have, full and with rows missing, one tile and several; experts without rows."""
    sizes = [0, 1, *(size - missing for size in range(8, 264, 8) for missing in (0, 3)), 0, 257, 511, 700, 1030, 0]
    shape = case(rows=sum(sizes), experts=len(sizes), n=136, k=72)
    drawn = inputs.draw(shape, "cuda", 1)
    ends = torch.tensor(sizes, device="cuda").cumsum(0).to(torch.int32)
    y = variant("grouped_hopper").build(shape, {})(drawn["x"], drawn["w"], ends)
    rows = drawn["x"].double().split(sizes)
    expected = torch.cat([x @ w.t() for x, w in zip(rows, drawn["w"].double(), strict=True)])
    torch.testing.assert_close(y.double(), expected, rtol=2**-8, atol=1e-5)


@pytest.mark.gpu
def test_disordered_ends_stay_inside_the_rows() -> None:
    shape = case(rows=256, n=64, k=64)
    product = variant("grouped_hopper").build(shape, {})
    drawn = inputs.draw(shape, "cuda", 1)
    for ends in ([-5, 9000, 3, 256], [2**31 - 1] * 4, [-(2**31)] * 4):
        product(drawn["x"], drawn["w"], torch.tensor(ends, dtype=torch.int32, device="cuda"))
    torch.cuda.synchronize()
    with pytest.raises(ValueError, match="ends is"):
        product(drawn["x"], drawn["w"], drawn["ends"].long())
