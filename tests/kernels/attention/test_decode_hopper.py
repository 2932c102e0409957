"""decode_hopper: compiles without spills, refuses what it cannot serve, is right and captured on a GPU."""

from itertools import product

import pytest

from kernels import registry
from kernels.attention.decode_hopper_tiles import SOURCE, STEP, constants, shared_bytes, split_count
from kernels.cases import check_cases
from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.hardware import GPUS
from kernels.ops import AttentionCase
from kernels.proof import gate
from tests.kernels.compiling import compile_log, resources

BASE = AttentionCase(kind="decode", head_dim=64, heads=32, kv_heads=8, batch=8, q_len=1, kv_len=8192)
VARIANT = registry.variant("decode_hopper")


def like(**change):
    return BASE.model_copy(update=change)


@pytest.mark.parametrize(
    "change",
    [
        {}, {"kv_dtype": "fp8"}, {"head_dim": 128, "kv_dtype": "fp8", "dtype": "fp16"},
        {"paged": True, "page_size": 64, "kv_lengths": (8192,) * 8},
    ],
    ids=str,
)  # fmt: skip
def test_nothing_is_spilled(change):
    case = like(**change)
    for tuning in VARIANT.space(case)[:2]:
        given = constants(case, tuning, split_count(case, tuning, 132), bool(case.kv_lengths), case.page_size or 0)
        used = resources(compile_log(SOURCE, given))
        assert (used.spill_stores, used.spill_loads, used.stack) == (0, 0, 0), tuning
        assert shared_bytes(given) <= MAX_SHARED_BYTES


def test_splits_fill_the_gpu_and_leave_each_warp_a_step():
    for batch, kv_len in product((1, 8, 64, 500), (0, 1, 500, 8192, 131_072)):
        case = like(batch=batch, kv_len=kv_len)
        for tuning in VARIANT.space(case):
            splits = split_count(case, tuning, 132)
            assert splits == 1 or splits * batch * 8 <= 132
            assert splits == 1 or splits * tuning["warps"] * STEP <= kv_len


@pytest.mark.gpu
def test_it_passes_the_gate_on_the_gpu():
    drawn = [case for case in check_cases("attention", cpu=False) if VARIANT.serves(case, GPUS["h200"]) is None]
    odd = like(batch=3, kv_len=801, kv_lengths=(0, 33, 801))
    changes = ({}, {"heads": 8}, {"heads": 24, "kv_dtype": "fp8"}, {"heads": 64, "head_dim": 128, "paged": True})
    for case in (*drawn[::4], *(odd.model_copy(update=change) for change in changes)):
        for params in VARIANT.space(case):
            report = gate.check(VARIANT, case, "cuda", params)
            assert report.passed, f"{case.key} {params}: {report.sentence}"


@pytest.mark.gpu
@pytest.mark.parametrize("kv_len", [2048, 65_536])
def test_captured_graphs_follow_the_position_and_wrong_ones_give_nan(kv_len):
    import torch

    call = VARIANT.build(like(batch=1, kv_len=kv_len), {})
    q = torch.randn(1, 1, 32, 64, device="cuda", dtype=torch.bfloat16)
    k, v = torch.randn(2, 1, kv_len, 8, 64, device="cuda", dtype=torch.bfloat16)
    position = torch.zeros(1, dtype=torch.int64, device="cuda")
    call(q, k, v, position=position)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call(q, k, v, position=position)
    for at in (0, 1, 15, 16, 700, kv_len - 1):
        position.fill_(at)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, call(q, k, v, position=position))
        wanted = torch.nn.functional.scaled_dot_product_attention(
            *(value[:, : at + 1].transpose(1, 2).double() for value in (q, k, v)), enable_gqa=True
        )
        assert torch.allclose(out.transpose(1, 2).double(), wanted, atol=0.02)
    for wrong in (-2, kv_len):
        position.fill_(wrong)
        assert torch.isnan(call(q, k, v, position=position)).all()


@pytest.mark.gpu
def test_offsets_beyond_32_bits():
    """The second sequence's keys and values lie 2³¹ elements behind the first's."""
    import torch

    call = VARIANT.build(like(batch=2, heads=4, kv_heads=1, kv_len=64), {})
    q = torch.randn(2, 1, 4, 64, device="cuda", dtype=torch.bfloat16)
    near = torch.randn(2, 2, 64, 1, 64, device="cuda", dtype=torch.bfloat16)
    memory = torch.empty(2, 2**31 + 4096, device="cuda", dtype=torch.bfloat16)
    far = [each.as_strided((2, 64, 1, 64), (2**31, 64, 64, 1)).copy_(near[i]) for i, each in enumerate(memory)]
    assert torch.equal(call(q, *far), call(q, *near))


@pytest.mark.gpu
def test_what_the_kernel_cannot_read_is_named():
    import torch

    call = VARIANT.build(like(batch=1, kv_len=256), {})
    q = torch.randn(1, 1, 32, 64, device="cuda", dtype=torch.bfloat16)
    k, v = torch.randn(2, 1, 256, 8, 64, device="cuda", dtype=torch.bfloat16)
    shifted = torch.randn(k.numel() + 4, device="cuda", dtype=torch.bfloat16)[4:].view(k.shape)
    with pytest.raises(ValueError, match="k begins at"):
        call(q, shifted, v)
    k[:, 7, 3] = torch.nan
    assert torch.isnan(call(q, k, v)[:, :, 12:16]).all()
    assert torch.isfinite(call(q, k, v)[:, :, :12]).all()
