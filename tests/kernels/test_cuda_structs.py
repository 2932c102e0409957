"""Structs that Python builds have the fields of the CUDA source, in its order. Their sizes are the compiler's to check:
`static_assert` in every source. A test sees that none of them is missing here.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from kernels.attention import decode_hopper_plan, flash_plan, step_hopper_plan
from kernels.engine import all_reduce
from kernels.gemm import (
    blackwell_call,
    blackwell_plan,
    grouped_blackwell_plan,
    grouped_plan,
    hopper_call,
    lm_head_call,
    skinny_call,
    small_call,
)
from kernels.megakernel import device, instructions
from kernels.tiles.maps import TENSOR_MAP

KERNELS = Path(__file__).parents[2] / "kernels"
OPERANDS = np.dtype(blackwell_plan.OPERANDS).names or ()

STRUCTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("attention/decode_hopper.cu", "Call"): decode_hopper_plan.CALL.names or (),
    ("attention/visible.cuh", "Shape"): flash_plan.SHAPE.names or (),
    ("attention/step_attention.cuh", "Call"): np.dtype(step_hopper_plan.FIELDS).names or (),
    ("engine/all_reduce.cu", "Params"): all_reduce.params_of(2).names or (),
    ("gemm/blackwell_epilogue.cuh", "Operands"): OPERANDS,
    ("gemm/blackwell.cu", "Params"): (blackwell_plan.PARAMS.names or ())[len(OPERANDS) :],
    ("gemm/grouped_blackwell.cu", "Params"): (grouped_blackwell_plan.PARAMS.names or ())[len(OPERANDS) :],
    ("gemm/blackwell.cuh", "Maps"): blackwell_call.MAPS.names or (),
    ("gemm/grouped_schedule.cuh", "GroupedParams"): grouped_plan.PARAMS.names or (),
    ("gemm/lm_head.cu", "Feedback"): lm_head_call.FEEDBACK.names or (),
    ("gemm/lm_head.cu", "Settings"): lm_head_call.SETTINGS.names or (),
    ("gemm/schedule.cuh", "Params"): hopper_call.PARAMS.names or (),
    ("gemm/skinny_stream.cuh", "Params"): skinny_call.PARAMS.names or (),
    ("gemm/small_epilogue.cuh", "Params"): small_call.PARAMS.names or (),
    ("megakernel/parameters.cuh", "Instruction"): (*instructions.FIELDS, "unused"),
    ("megakernel/parameters.cuh", "Params"): (device.params_of(2).names or ())[:-1],  # the last one is padding
    ("megakernel/parameters.cuh", "Sampling"): device.SAMPLING.names or (),
}
"""The fields that Python fills, by source and struct."""


def fields(source: str, struct: str) -> list[str]:
    """The names of a struct's members, in order. Its functions, if any, stand behind them."""
    text = re.sub(r"//.*|^#.*$", "", (KERNELS / source).read_text(), flags=re.M)
    inside = re.search(rf"\bstruct {struct}(?: : \w+)? {{(.*?)\n}};", text, re.S)
    assert inside, f"{source} has no struct {struct}"
    declared = re.sub(r"\[.*?\]", "", inside[1].split("__device__")[0])
    return [names[-1] for each in re.split("[;,]", declared) if (names := re.findall(r"\w+", each))]


@pytest.mark.parametrize(("source", "struct"), STRUCTS, ids=lambda each: each)
def test_python_fills_the_fields_of_the_source_in_its_order(source: str, struct: str) -> None:
    assert fields(source, struct) == list(STRUCTS[source, struct])


def test_every_struct_whose_size_the_compiler_checks_is_compared() -> None:
    checked = set()
    for path in KERNELS.rglob("*.cu*"):
        for struct in re.findall(r"static_assert\(sizeof\((\w+)\) == ", path.read_text()):
            named = f"struct {struct} "
            checked |= {(each.parent, struct) for each in path.parent.glob("*.cu*") if named in each.read_text()}
    assert checked - {((KERNELS / source).parent, struct) for source, struct in STRUCTS} == {
        (KERNELS / "gemm", "Shared")
    }


def test_a_tensor_map_has_the_size_that_python_copies() -> None:
    text = (KERNELS / "tiles" / "tma.cuh").read_text()
    assert f"char opaque[{TENSOR_MAP.itemsize}];" in text
