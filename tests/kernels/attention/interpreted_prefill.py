"""Prefill attention in Triton's interpreter: right at tiny shapes, and where offsets pass 2³¹."""

import pytest
import torch

from kernels import registry
from kernels.ops import AttentionCase, reference
from kernels.proof import gate, inputs
from tests.kernels.attention.test_flash_triton import like
from tests.kernels.interpreting import assert_right

SMALL = {"block_m": 16, "block_n": 16, "warps": 4, "stages": 2}


CASES = [
    like(head_dim=128, batch=1, q_len=17, causal=False),
    like(head_dim=256, q_len=17, kv_len=33, batch=1, heads=2, dtype="fp32"),
    like(lengths=(5, 0, 33), sinks=True),
    like(window=9, sinks=True, dtype="fp32"),
    like(lengths=(20, 7), window=9, softcap=20.0, causal=False, dtype="fp32"),
    like(q_len=30, kv_len=9, batch=1),
    like(head_dim=96, heads=4, kv_heads=2, q_len=13, kv_len=39, window=20, softcap=5.0, dtype="fp32"),
    like(q_len=34, kv_len=34, window=1),
    like(q_len=0),
    like(kv_len=0),
    like(batch=0),
    like(lengths=()),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_it_is_right(case: AttentionCase) -> None:
    assert_right(registry.variant("flash_triton"), case, SMALL, ("normal", "large"))


def test_it_passes_the_gate() -> None:
    """With tiny inputs as well."""
    report = gate.check(registry.variant("flash_triton"), like(q_len=17, kv_len=17), "cpu", SMALL)
    assert report.passed, report.sentence


@pytest.mark.parametrize(
    ("batch", "length", "strides"), [(2, 20, (2**31, 32, 32, 1)), (1, 140, (2**27, 2**24 - 64, 32, 1))]
)
def test_strides_that_pass_2_to_the_31(batch: int, length: int, strides: tuple[int, ...]) -> None:
    """In memory that is mostly never touched."""
    case = like(head_dim=32, heads=1, batch=batch, q_len=length, kv_len=length)
    drawn = inputs.draw(case, "cpu", 12)
    shape = drawn["q"].shape
    far = torch.empty(
        2000 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True)), dtype=torch.half
    )
    laid = {name: far[640 * at :].as_strided(shape, strides).copy_(drawn[name]) for at, name in enumerate("qkv")}
    out = registry.variant("flash_triton").build(case, SMALL)(**laid)
    assert torch.allclose(out.double(), reference.compute(case, drawn)[0], atol=2e-3)
