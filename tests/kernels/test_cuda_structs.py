"""Structs that Python builds have the fields of the CUDA source, in its order."""

import re
from pathlib import Path

import numpy as np
import pytest

from kernels.attention import decode_hopper_tiles, flash_tiles, step_hopper_tiles
from kernels.blackwell import gemm_call, gemm_tiles
from kernels.blackwell import grouped_tiles as blackwell_grouped_tiles
from kernels.fft import fft_tiles
from kernels.gemm import grouped_tiles, hopper_call, lm_head_call, skinny_call, small_call
from kernels.megakernel.host import device
from kernels.megakernel.program import instructions
from kernels.model import all_reduce
from kernels.tiles.maps import TENSOR_MAP

KERNELS = Path(__file__).parents[2] / "kernels"
OPERANDS = np.dtype(gemm_tiles.OPERANDS).names or ()

STRUCTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("attention/decode_hopper.cu", "Params"): decode_hopper_tiles.PARAMS.names or (),
    ("tiles/visible.cuh", "Shape"): flash_tiles.SHAPE.names or (),
    ("attention/step_attention.cuh", "Params"): np.dtype(step_hopper_tiles.FIELDS).names or (),
    ("model/all_reduce.cu", "Params"): all_reduce.params_of(2).names or (),
    ("blackwell/epilogue.cuh", "Operands"): OPERANDS,
    ("blackwell/gemm.cu", "Params"): (gemm_tiles.PARAMS.names or ())[len(OPERANDS) :],
    ("blackwell/grouped.cu", "Params"): (blackwell_grouped_tiles.PARAMS.names or ())[len(OPERANDS) :],
    ("blackwell/gemm.cuh", "Maps"): gemm_call.MAPS.names or (),
    ("fft/sequences.cuh", "Params"): fft_tiles.PARAMS.names or (),
    ("gemm/grouped_schedule.cuh", "GroupedParams"): grouped_tiles.PARAMS.names or (),
    ("gemm/lm_head.cu", "Feedback"): lm_head_call.FEEDBACK.names or (),
    ("gemm/lm_head.cu", "Settings"): lm_head_call.SETTINGS.names or (),
    ("gemm/schedule.cuh", "Params"): hopper_call.PARAMS.names or (),
    ("gemm/skinny_stream.cuh", "Params"): skinny_call.PARAMS.names or (),
    ("gemm/small_epilogue.cuh", "Params"): small_call.PARAMS.names or (),
    ("megakernel/cuda/parameters.cuh", "Instruction"): (*instructions.FIELDS, "unused"),
    ("megakernel/cuda/parameters.cuh", "Params"): (device.params_of(2).names or ())[:-1],  # the last one is padding
    ("megakernel/cuda/parameters.cuh", "Sampling"): device.SAMPLING.names or (),
}
"""The fields that Python fills, by source and struct."""


def fields(source: str, struct: str) -> list[str]:
    """The names of a struct's members, in order. Its functions, if any, stand behind them."""
    text = re.sub(r"//.*|^#.*$", "", (KERNELS / source).read_text(), flags=re.M)
    inside = re.search(rf"\bstruct {struct}(?: : \w+)? {{(.*?)\n}};", text, re.S)
    assert inside, f"{source} has no struct {struct}"
    declared = re.sub(r"\[.*?\]", "", inside[1].split("__device__")[0])
    return [names[-1] for part in re.split("[;,]", declared) if (names := re.findall(r"\w+", part))]


@pytest.mark.parametrize(("source", "struct"), STRUCTS, ids=lambda each: each)
def test_python_fills_the_fields_of_the_source_in_its_order(source: str, struct: str) -> None:
    assert fields(source, struct) == list(STRUCTS[source, struct])


def test_every_struct_whose_size_is_checked_is_compared_and_a_tensor_map_has_its_size() -> None:
    checked = set()
    for path in KERNELS.rglob("*.cu*"):
        for struct in re.findall(r"static_assert\(sizeof\((\w+)\) == ", path.read_text()):
            named = f"struct {struct} "
            checked |= {(item.parent, struct) for item in path.parent.glob("*.cu*") if named in item.read_text()}
    assert checked - {((KERNELS / source).parent, struct) for source, struct in STRUCTS} == {
        (KERNELS / room, "Shared") for room in ("fft", "gemm")
    }
    text = (KERNELS / "tiles" / "tma.cuh").read_text()
    assert f"char opaque[{TENSOR_MAP.itemsize}];" in text
