"""flash_blackwell run thread by thread on a CPU, its tensor cores emulated: right answers, and the bits it is told."""

import ctypes
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.blackwell.flash import SOURCE, plan
from kernels.ops import AttentionCase, reference
from kernels.proof import inputs
from tests.kernels.blackwell.flash_on_cpu import ENTRY, built, rising, run, run_of
from tests.kernels.on_cpu import planted_source
from tests.kernels.on_cpu.descriptor_tables import INSTRUCTION, MEMORY, bits


def case(**fields: Any) -> AttentionCase:
    shape = {"kind": "prefill", "head_dim": 64, "heads": 4, "kv_heads": 2, "batch": 1, "q_len": 300, "kv_len": 300}
    return AttentionCase(**shape | fields)


def is_right(o: Tensor, shape: AttentionCase, given: dict[str, Tensor]) -> bool:
    """Whether o is the truth, rounded: within one step of its dtype at the largest value."""
    truth = reference.compute(shape, given)[0]
    return bool((o.double() - truth).abs().max() <= torch.finfo(o.dtype).eps * truth.abs().max())


FP16 = {"head_dim": 128, "dtype": "fp16", "kv_dtype": "fp16"}


@pytest.mark.parametrize(
    ("fields", "params"),
    [
        ({}, {}), ({"q_len": 400, "kv_len": 90}, {}), ({"q_len": 70, "kv_len": 520, "batch": 2}, {}),
        ({"kv_len": 420, "heads": 2, "kv_heads": 1} | FP16, {"slots": 2}),
        ({"kv_len": 200, "causal": False}, {"slots": 3}),
        ({"q_len": 600, "kv_len": 600, "heads": 1, "kv_heads": 1, "window": 100}, {}),
    ],
    ids=str,
)  # fmt: skip
def test_it_computes_attention(fields: dict[str, Any], params: dict[str, Any]) -> None:
    """By two blocks whose engines work at other moments in each run; some scores rise from block to block."""
    shape = case(**fields)
    drawn = inputs.draw(shape, "cpu", 1)
    for seed, given in ((1, drawn), (2, rising(drawn))):
        ended, o = run(shape, given, 2, seed, params)
        assert ended == 0
        assert is_right(o, shape, given)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_is_not_a_number_reaches_those_who_see_it(value: float) -> None:
    shape = case(heads=1, kv_heads=1)
    given = inputs.draw(shape, "cpu", 1)
    given["q"] = given["q"].abs() + 0.1
    given["k"][:, 200] = value
    ended, o = run(shape, given, 1, 1)
    assert ended == 0
    assert o[:, 200:].isnan().all()
    assert o[:, :200].isfinite().all()


MISTAKES = {
    "products do not wait for queries": ("wait_for(s.q_full[half]", "if (!MISTAKE) wait_for(s.q_full[half]"),
    "the halves' sums overlap": ("half * HEAD_DIM;", "half * (HEAD_DIM - 16 * MISTAKE);"),
    "weights are read eight columns on": (", half), s.ring[values]", ", half) + 8 * MISTAKE, s.ring[values]"),
    "both halves take the first one's queries": ("s.q[half], s.ring", "s.q[half * !MISTAKE], s.ring"),
    "sums of the tile before stay": ("block + 2 < mine.end);", "MISTAKE || block + 2 < mine.end);"),
    "sums are not rescaled": ("tmem_scale<HEAD_DIM>", "if (!MISTAKE) tmem_scale<HEAD_DIM>"),
    "the sum of the weights is not rescaled": ("sum *= scores_scale;", "if (!MISTAKE) sum *= scores_scale;"),
    "a query sees the key behind it": ("i >= end", "i >= end + MISTAKE"),
    "heads take the keys of others": ("tile.head / shape.group", "(tile.head + MISTAKE) / shape.group % 2"),
}  # fmt: skip


@pytest.fixture(scope="module")
def mistaken(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return planted_source.mistaken(
        SOURCE, MISTAKES, ENTRY, plan(case(), {}).constants, tmp_path_factory.mktemp("mistaken")
    )


@pytest.mark.parametrize("name", [None, *MISTAKES])
def test_a_planted_mistake_is_found(mistaken: ctypes.CDLL, name: str | None) -> None:
    shape = case()
    given = rising(inputs.draw(shape, "cpu", 1))
    mistaken.make(0 if name is None else list(MISTAKES).index(name) + 1)
    ended, o = run_of(mistaken, shape, given, 2, 1)
    assert (ended == 0 and is_right(o, shape, given)) == (name is None)


def test_descriptors_have_the_bits_of_the_instruction_set() -> None:
    """Those of weights and values; scores have those of the GEMM."""
    for dtype, type_of in (("bf16", 1), ("fp16", 0)):
        fields = {} if dtype == "bf16" else FP16 | {"kv_len": 420, "heads": 2, "kv_heads": 1}
        shape = case(**fields)
        told = built(shape, {"slots": 2} if fields else {})
        told.weighted.restype, told.columns.restype = ctypes.c_uint, ctypes.c_ulonglong
        wanted = {"sum": 1, "a": type_of, "b": type_of, "b_columns": 1, "m": 128 // 16, "n": shape.head_dim // 8}
        assert told.weighted() == bits(wanted, INSTRUCTION["f16"])
        for address in (0, 1024, 65_536, 229_376):
            at = {"address": address // 16, "version": 1, "swizzle": 2, "stride": 1024 // 16, "leading": 16_384 // 16}
            assert told.columns(address, 16_384) == bits(at, MEMORY)
