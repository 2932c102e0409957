"""gemm_blackwell and grouped_blackwell without tensor cores: for Hopper, where copies, barriers and stores run."""

from pathlib import Path
from typing import Any

import pytest
import torch

from kernels.blackwell import grouped_tiles
from kernels.blackwell.gemm_call import SOURCE, BlackwellLinear
from kernels.blackwell.gemm_tiles import constants, tile_of
from kernels.blackwell.grouped_call import GroupedBlackwellProduct
from kernels.cuda.call import CudaCall
from kernels.ops import GroupedCase, LinearCase, reference
from kernels.proof import inputs
from kernels.registry import variant
from tests.kernels.compiling import resources
from tests.kernels.skeleton.on_hopper import BLOCKS, built, loaded

CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"epilogue": "residual"}, {"columns": 128, "stages": 3}),
    ({"weights": "fp8", "scales": "row", "epilogue": "swiglu"}, {"columns": 128}),
    ({"weights": "fp8", "scales": "block32", "epilogue": "bias"}, {"columns": 256}),
    ({"weights": "nvfp4", "scales": "block16"}, {"columns": 128, "stages": 2}),
]
each_case = pytest.mark.parametrize(("fields", "params"), CASES, ids=str)


def case(fields: dict[str, Any]) -> LinearCase:
    return LinearCase(**{"m": 300, "n": 328, "k": 608} | fields)


class Skeleton(BlackwellLinear):
    """The call of gemm_blackwell with the kernel for Hopper, by two blocks."""

    def __init__(self, shape: LinearCase, params: dict[str, Any], folder: Path) -> None:
        CudaCall.__init__(self)
        self.case, self.tile = shape, tile_of(shape, params)
        self.kernel = loaded(SOURCE, constants(shape, self.tile), "gemm", self.tile.shared_bytes, folder)

    def _sms(self, device: torch.device) -> int:
        return BLOCKS


class GroupedSkeleton(GroupedBlackwellProduct):
    """The call of grouped_blackwell with the kernel for Hopper, by two blocks."""

    def __init__(self, shape: GroupedCase, params: dict[str, Any], folder: Path) -> None:
        CudaCall.__init__(self)
        self.case, self.tile = shape, grouped_tiles.tile_of(shape, params)
        macros = grouped_tiles.constants(shape, self.tile)
        self.kernel = loaded(grouped_tiles.SOURCE, macros, "gemm", self.tile.shared_bytes, folder)

    def _sms(self, device: torch.device) -> int:
        return BLOCKS


@pytest.mark.parametrize(("fields", "params"), CASES[1::2], ids=str)
def test_it_compiles_for_hopper(fields: dict[str, Any], params: dict[str, Any]) -> None:
    shape = case(fields)
    result = resources(built(SOURCE, constants(shape, tile_of(shape, params)))[0])
    assert result.spill_stores == 0


GROUPED = GroupedCase(rows=460, experts=40, n=136, k=320, epilogue="swiglu")


def test_the_grouped_product_compiles_for_hopper() -> None:
    tile = grouped_tiles.tile_of(GROUPED, {"columns": 128})
    log, _ = built(grouped_tiles.SOURCE, grouped_tiles.constants(GROUPED, tile))
    assert resources(log).spill_stores == 0


@pytest.mark.gpu
def test_each_experts_rows_are_right_on_hopper(tmp_path: Path) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the skeleton is compiled for sm_90a")
    given = inputs.draw(GROUPED, "cuda", 1)
    ends = [0, 1, *[170] * 30, 171, 171, *[400] * 6]
    given["offs"] = torch.tensor(ends, dtype=torch.int32, device="cuda")
    truth = GROUPED.reference(given | {"x": given["x"][: ends[-1]].double(), "w": given["w"].double()})[0]
    call, y = GroupedSkeleton(GROUPED, {"columns": 128}, tmp_path), torch.full((460, 136), 7.0).bfloat16().cuda()
    call(given["x"], variant("grouped_blackwell").pack(GROUPED, {}, given["w"]), given["offs"], out=y)
    torch.cuda.synchronize()
    assert (y[: ends[-1]].double() - truth).abs().max() <= torch.finfo(y.dtype).eps * truth.abs().max()
    assert (y[ends[-1] :] == 7).all(), "rows of no expert are not written"


@pytest.mark.gpu
@each_case
def test_its_copies_barriers_and_stores_are_right_on_hopper(fields, params, tmp_path):
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the skeleton is compiled for sm_90a")
    shape = case(fields)
    offered = variant("gemm_blackwell_scaled" if shape.scales else "gemm_blackwell")
    given = inputs.draw(shape, "cuda", 1)
    truth = reference.compute(shape, offered.rounded(shape, params, given))[0]
    call = Skeleton(shape, params, tmp_path)
    passed = shape.passed(given) | {"w": offered.pack(shape, params, given["w"])}
    y = call(passed["x"], passed["w"], passed.get("bias"), passed.get("residual"))
    torch.cuda.synchronize()
    assert (y.double() - truth).abs().max() <= torch.finfo(y.dtype).eps * truth.abs().max()
