"""The Hopper kernel compiles without spills for all it serves, refuses in a sentence, and is right on a GPU."""

from itertools import cycle

import numpy as np
import pytest
import torch

from kernels.attention.flash_hopper import PARAMS, SHAPES, SOURCE, FlashHopper, constants, shared_bytes
from kernels.attention.schedule import L2_BYTES, schedule
from kernels.cases import check_cases
from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.hardware import GPUS
from kernels.ops import AttentionCase
from kernels.proof import gate
from tests.kernels.compiling import compile_log, resources

BASE = AttentionCase(kind="prefill", head_dim=64, heads=4, kv_heads=2, batch=2, q_len=40, kv_len=40)


def like(**changes):
    """The base case with these fields."""
    return AttentionCase(**BASE.model_dump() | changes)


CHANGES = [{}, {"causal": False, "dtype": "fp16", "kv_dtype": "fp16"}, {"window": 100}]


@pytest.mark.parametrize(
    ("head_dim", "values", "change"),
    [
        (head_dim, values, change)
        for head_dim, shapes in SHAPES.items()
        for values, change in zip(shapes, cycle(CHANGES))
    ],
)
def test_it_compiles_without_spills(head_dim, values, change):
    log = compile_log(SOURCE, constants(like(head_dim=head_dim, **change), dict(zip(PARAMS, values, strict=True))))
    result = resources(log)
    assert (result.stack, result.spill_stores, result.spill_loads) == (0, 0, 0)
    assert "serialized" not in log


def test_offered_params_fit_the_shared_memory():
    for head_dim, shapes in SHAPES.items():
        for shape in shapes:
            assert shared_bytes(like(head_dim=head_dim), dict(zip(PARAMS, shape, strict=True))) <= MAX_SHARED_BYTES


@pytest.fixture
def call():
    """f(case, changed inputs by name) -> o on the GPU."""

    def run(case, **changed):
        drawn = {
            name: torch.randn(case.batch, length, heads, case.head_dim, device="cuda").to(torch.bfloat16)
            for name, length, heads in (
                ("q", case.q_len, case.heads),
                ("k", case.kv_len, case.kv_heads),
                ("v", case.kv_len, case.kv_heads),
            )
        }
        return FlashHopper().build(case, {})(**drawn | changed)

    return run


@pytest.mark.gpu
def test_drawn_cases_pass_the_gate():
    served = [case for case in check_cases("attention", cpu=False) if FlashHopper().serves(case, GPUS["h200"]) is None]
    assert len(served) > 10
    for case in served[::3]:  # `check` takes them all
        for params in FlashHopper().space(case):
            report = gate.check(FlashHopper(), case, "cuda", params)
            assert report.passed, f"{case.key} {params}: {report.sentence}"


@pytest.mark.gpu
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("key", [0, 7, 200, 299])
def test_what_is_not_a_number_reaches_those_who_see_it(call, value, key):
    case = like(batch=1, q_len=300, kv_len=300)
    k = torch.randn(1, 300, 2, 64, device="cuda").to(torch.bfloat16)
    k[0, key] = value
    o = call(case, q=torch.rand(1, 300, 4, 64, device="cuda").to(torch.bfloat16) + 0.1, k=k)
    assert o[:, key:].isnan().all()
    assert o[:, :key].isfinite().all()


@pytest.mark.gpu
def test_offsets_beyond_32_bits(call):
    """The second sequence's keys and values lie 2³¹ elements behind the first's."""
    case = like(batch=2, q_len=64, kv_len=64)
    q, near = torch.randn(2, 64, 4, 64, device="cuda"), torch.randn(2, 2, 64, 2, 64, device="cuda")
    q, near = q.to(torch.bfloat16), near.to(torch.bfloat16)
    memory = torch.empty(2, 2**31 + 8192, device="cuda", dtype=torch.bfloat16)
    far = [each.as_strided((2, 64, 2, 64), (2**31, 128, 64, 1)).copy_(near[i]) for i, each in enumerate(memory)]
    assert torch.equal(call(case, q=q, k=far[0], v=far[1]), call(case, q=q, k=near[0], v=near[1]))


@pytest.mark.gpu
def test_misaligned_arguments_are_named(call):
    odd = torch.randn(2 * 40 * 2 * 64 + 1, device="cuda").to(torch.bfloat16)[1:].view(2, 40, 2, 64)
    with pytest.raises(ValueError, match=r"^k: "):
        call(BASE, k=odd)


SCHEDULED = AttentionCase(kind="prefill", head_dim=64, heads=4, kv_heads=2, batch=3, q_len=1000, kv_len=1000)


@pytest.mark.parametrize(
    "change", [{}, {"causal": False}, {"kv_len": 40}, {"q_len": 1}, {"q_len": 129}, {"window": 30}, {"batch": 0}]
)
@pytest.mark.parametrize("blocks", [1, 7, 132])
def test_every_query_is_dealt_once(change, blocks):
    case = SCHEDULED.model_copy(update=change)
    table = schedule(case, rows=192, keys=128, blocks=blocks)
    counted = np.zeros((case.batch, case.heads, case.q_len), int)
    for batch, head, first, one in table.reshape(-1, 4):
        if one:
            assert first % 64 == 0
            counted[batch, head, max(0, first) : first + 192] += 1
    assert (counted == 1).all()
    assert not table[-1].any()
    assert all((np.diff(table[:, block, 3]) <= 0).all() for block in range(blocks))


def test_blocks_share_causal_work_evenly_and_work_on_long_keys_in_sections():
    table = schedule(SCHEDULED.model_copy(update={"q_len": 8192, "kv_len": 8192}), rows=128, keys=128, blocks=132)
    work = ((table[..., 2] + 128) * table[..., 3]).sum(axis=0)
    assert work.max() < 1.05 * work.mean()
    case = SCHEDULED.model_copy(update={"kv_len": L2_BYTES // (4 * 64)})
    table = schedule(case, rows=128, keys=128, blocks=4)
    pairs = [batch * 4 + head for batch, head, _, one in table.reshape(-1, 4) if one]
    assert [pair // 2 for pair in pairs] == sorted(pair // 2 for pair in pairs)
