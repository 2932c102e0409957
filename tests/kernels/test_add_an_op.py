"""The worked example of docs/add-an-op.md: its case passes through generic code as any other."""

import re
from pathlib import Path
from typing import Literal

import pytest
import torch
from pydantic import Field

from kernels.measure.roofline import floor_ms
from kernels.ops import reference
from kernels.ops.base import BYTES, Arguments, BaseCase, DType, Outputs
from kernels.proof import inputs

PAGE = Path(__file__).parents[2] / "docs" / "add-an-op.md"


def test_the_example_has_inputs_a_reference_a_tolerance_and_a_floor():
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert code
    given = {"BaseCase": BaseCase, "BYTES": BYTES, "Arguments": Arguments, "DType": DType, "Outputs": Outputs}
    names = given | {"Literal": Literal, "Field": Field, "__name__": "example"}
    exec(code.group(1), names)
    case = names["SoftmaxCase"](m=3, n=64)
    drawn = inputs.draw(case, "cpu", 1)
    assert drawn["x"].dtype == torch.bfloat16
    (y,) = reference.compute(case, drawn)
    torch.testing.assert_close(y.sum(dim=-1), torch.ones(3, dtype=torch.float64))
    assert reference.rounding(case, drawn) == torch.finfo(torch.bfloat16).eps / 2
    ceilings = {"read_tbps": 4.0, "copy_tbps": 2.0, "matrix_tflops": {"bf16": 600.0}}
    assert floor_ms(case, ceilings) == pytest.approx(case.least_bytes / 2e9)
