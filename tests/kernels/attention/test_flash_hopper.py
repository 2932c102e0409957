"""The Hopper kernel compiles without spills for all it serves, refuses in a sentence, and is right on a GPU."""

from itertools import cycle

import pytest
import torch

from kernels.attention.flash_hopper import PARAMS, SHAPES, SOURCE, FlashHopper, constants, shared_bytes
from kernels.cases import check_cases
from kernels.cuda.occupancy import SHARED_MOST
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
    ]
    + [(128, SHAPES[128][0], change) for change in CHANGES[1:]],
)
def test_it_compiles_without_spills(head_dim, values, change):
    log = compile_log(SOURCE, constants(like(head_dim=head_dim, **change), dict(zip(PARAMS, values, strict=True))))
    found = resources(log)
    assert (found.stack, found.spill_stores, found.spill_loads) == (0, 0, 0)
    assert "serialized" not in log


@pytest.mark.parametrize(
    ("change", "gpu", "said"),
    [
        ({}, "a100", "device is NVIDIA A100"),
        ({}, "b200", "device is NVIDIA B200"),
        ({"kind": "decode"}, "h200", "kind is decode"),
        ({"head_dim": 96}, "h200", "head_dim is 96"),
        ({"dtype": "fp32", "kv_dtype": "fp32"}, "h200", "dtype is fp32"),
        ({"kv_dtype": "fp8"}, "h200", "kv_dtype is fp8"),
        ({"paged": True}, "h200", "keys and values are paged"),
        ({"batch": 1, "lengths": (10, 30)}, "h200", "2 lengths are given"),
        ({"softcap": 30.0}, "h200", "softcap is 30"),
        ({"heads": 3}, "h200", "heads is 3"),
        ({"window": 0}, "h200", "window is 0"),
    ],
)
def test_refusals_name_the_field(change, gpu, said):
    refusal = FlashHopper().serves(like(**change), GPUS[gpu])
    assert refusal is not None
    assert refusal.reason.startswith(said)
    if gpu == "h200":
        with pytest.raises(ValueError, match=said.split()[0]):
            FlashHopper().build(like(**change), {})


@pytest.mark.parametrize("params", [{"tile": 3}, {"consumers": 4}, {"keys": 100}, {"slots": 16}, {"slots": 1}])
def test_bad_params_are_named(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        FlashHopper().build(BASE, params)


def test_offered_params_fit_the_shared_memory():
    for head_dim, shapes in SHAPES.items():
        for shape in shapes:
            assert shared_bytes(like(head_dim=head_dim), dict(zip(PARAMS, shape, strict=True))) <= SHARED_MOST


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
@pytest.mark.parametrize("change", [{"q_len": 0}, {"batch": 0}, {"kv_len": 0}, {"q_len": 300, "kv_len": 20}])
def test_queries_without_keys_give_zeros(call, change):
    case = like(**change)
    o = call(case)
    assert o.shape == (case.batch, case.q_len, case.heads, 64)
    assert torch.equal(o[:, : case.q_len - case.kv_len], torch.zeros_like(o[:, : case.q_len - case.kv_len]))


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


@pytest.mark.gpu
def test_strided_arguments(call):
    qkv = torch.randn(2, 40, 8, 64, device="cuda").to(torch.bfloat16)
    parts = dict(zip("qkv", (qkv[:, :, :4], qkv[:, :, 4:6], qkv[:, :, 6:]), strict=True))
    assert torch.equal(call(BASE, **parts), call(BASE, **{name: part.contiguous() for name, part in parts.items()}))
