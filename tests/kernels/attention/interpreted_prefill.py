"""Prefill attention where offsets pass 2³¹, in Triton's interpreter: test_interpreted.py runs this file."""

import pytest
import torch

from kernels import registry
from kernels.ops import AttentionCase, reference
from kernels.proof import inputs
from tests.kernels import interpreting

interpreting.let_tensors_be_bounds()


@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize("strides", [(2**31, 32, 32, 1), (2**27, 2**24 - 64, 32, 1)])
def test_strides_that_pass_2_to_the_31(name: str, strides: tuple[int, ...]) -> None:
    """In memory that is mostly never touched."""
    case = AttentionCase(
        kind="prefill", head_dim=32, heads=1, kv_heads=1, batch=2, q_len=140, kv_len=140, causal=True, dtype="fp16",
        kv_dtype="fp16",
    )  # fmt: skip
    drawn = inputs.draw(case, "cpu", 12)
    shape = drawn[name].shape
    far = torch.empty(
        1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True)), dtype=torch.float16
    )
    laid = far.as_strided(shape, strides)
    laid.copy_(drawn[name])
    params = {"block_m": 16, "block_n": 16, "warps": 4, "stages": 2}
    out = registry.variant("flash_triton").build(case, params)(**drawn | {name: laid})
    assert torch.allclose(out.double(), reference.compute(case, drawn)[0], atol=2e-3)
