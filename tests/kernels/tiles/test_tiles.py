"""The tiles layer: every header compiles without spills, impossible maps are refused, a GPU gives right results."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import triton

from kernels.cuda import nvrtc
from kernels.cuda.launch import Launch, current_stream
from kernels.tiles import maps
from tests.kernels.compiling import compile_log

PROOF = Path(__file__).with_name("proof.cu")
TYPES = {torch.bfloat16: "bf16", torch.float16: "f16"}


@pytest.mark.parametrize("name", TYPES.values())
def test_every_part_compiles_without_spills(name: str) -> None:
    log = compile_log(PROOF, {"TYPE": name})
    assert log.count("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") == 4
    assert "serialized" not in log


@pytest.mark.parametrize(
    ("tensor", "box", "word"),
    [
        (torch.zeros(8, 64, dtype=torch.float64), (8, 16), "float64"),
        (torch.zeros(64, dtype=torch.bfloat16), (64,), "dimensions"),
        (torch.zeros(8, 64, dtype=torch.bfloat16), (8, 32), "128 bytes"),
        (torch.zeros(8, 64, dtype=torch.bfloat16), (257, 64), "256"),
        (torch.zeros(0, 64, dtype=torch.bfloat16), (8, 64), "no elements"),
        (torch.zeros(8 * 64 + 1, dtype=torch.bfloat16)[1:].view(8, 64), (8, 64), "multiple of 16"),
        (torch.zeros(64, 128, dtype=torch.bfloat16).T, (8, 64), "innermost stride"),
        (torch.zeros(8, 68, dtype=torch.bfloat16)[:, :64], (8, 64), "strides"),
    ],
)
def test_a_map_that_cannot_be_is_refused(tensor: torch.Tensor, box: tuple[int, ...], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        maps.encode(tensor, box)


def test_a_map_that_the_copy_engine_does_not_have_is_refused_by_the_arguments_name() -> None:
    with pytest.raises(ValueError, match="a multiple of 16 bytes"):
        maps.encode(torch.zeros(2, 4, 128, dtype=torch.int32), (1, 4, 6), swizzled=False)
    with pytest.raises(ValueError, match="promotion of 64 bytes: the copy engine has 128, 256"):
        maps.encode(torch.zeros(8, 64, dtype=torch.bfloat16), (8, 64), 64)
    with pytest.raises(ValueError, match=r"^x: tensor has an innermost stride of 64, not 1"):
        maps.named("x", torch.empty(64, 64, dtype=torch.bfloat16).T, (64, 64))


def test_types_of_values_are_numbered_as_the_driver_does() -> None:
    """`CUtensorMapDataType` of cuda.h, without types that torch does not have."""
    header = next(Path(triton.__file__).parent.rglob("cuda.h")).read_text()
    listed = re.search(r"typedef enum CUtensorMapDataType_enum \{(.*?)\}", header, re.DOTALL)
    assert listed
    numbers = {name: i for i, name in enumerate(re.findall(r"CU_TENSOR_MAP_DATA_TYPE_(\w+)", listed[1]))}
    of_torch = {"float8_e4m3fn": "UINT8", "int8": "UINT8"}
    assert {name: numbers[of_torch.get(name, name.upper())] for name in maps.TYPES} == maps.TYPES


def _launch(entry: str, grid: int, threads: int, *arguments: Any, dtype: torch.dtype = torch.bfloat16) -> None:
    kernel = nvrtc.load(nvrtc.Build.of(PROOF, {"TYPE": TYPES[dtype]}), entry, 64 << 10)
    Launch(kernel, (grid,), threads, arguments, current_stream()[1], 64 << 10)()
    torch.cuda.synchronize()


def _normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, device="cuda").to(dtype)


def _near(y: torch.Tensor, truth: torch.Tensor, share: float) -> None:
    assert float((y.double() - truth).norm() / truth.norm()) < share


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("k", [64, 200, 1024])
def test_a_product_of_two_blocks(dtype: torch.dtype, k: int) -> None:
    x, w, y = (_normal(*shape, dtype=dtype) for shape in ((128, k), (128, k), (128, 128)))
    truth = x.double() @ w.double().T + y.double()
    boxes = ((x, (64, 64)), (w, (64, 64)), (y, (64, 64)))
    _launch("product_16", 2, 128, *(maps.encode(*box) for box in boxes), -(-k // 64) * 64, dtype=dtype)
    _near(y, truth, 4e-3)


@pytest.mark.gpu
def test_a_product_in_fp8() -> None:
    x, w = (_normal(128, 512).to(torch.float8_e4m3fn) for _ in range(2))
    y = _normal(128, 128, dtype=torch.bfloat16)
    truth = x.double() @ w.double().T + y.double()
    boxes = ((x, (64, 128)), (w, (64, 128)), (y, (64, 64)))
    _launch("product_8", 2, 128, *(maps.encode(*box) for box in boxes), 512)
    _near(y, truth, 4e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TYPES)
def test_a_product_whose_result_meets_another(dtype: torch.dtype) -> None:
    x, w, v, y = (_normal(64, columns, dtype=dtype) for columns in (64, 64, 128, 128))
    truth = (x.double() @ w.double().T).to(dtype).double() @ v.double()
    _launch("chain", 1, 128, *(maps.encode(value, (64, 64)) for value in (x, w, y, v)), dtype=dtype)
    _near(y, truth, 4e-3)


@pytest.mark.gpu
def test_roles_and_rows() -> None:
    y = torch.full((64,), float("nan"), device="cuda")
    _launch("roles", 1, 256, y.data_ptr())
    first = (torch.arange(64) % 16 < 8).float()
    assert torch.equal(y.cpu(), first * 3 * (600 + 12) + (1 - first) * 3)
