"""decode_split under Triton's interpreter: the gate over caches of every kind, and what a direct call refuses."""

import math

import pytest
import torch

from kernels.attention.decode_call import DecodeCall
from kernels.attention.decode_split import DecodeSplit
from kernels.ops import AttentionCase, reference
from kernels.proof import gate, inputs
from tests.kernels.interpreting import assert_right

TUNING = {"splits": 3, "per_sm": 1, "block": 16, "warps": 1, "stages": 2}


def like(**changes):
    base = {"kind": "decode", "head_dim": 32, "heads": 4, "kv_heads": 2, "batch": 2, "q_len": 1, "kv_len": 53}
    given = base | {"dtype": "fp16"} | changes
    return AttentionCase(**{"kv_dtype": given["dtype"]} | given)


@pytest.mark.parametrize(
    "change",
    [
        {"heads": 2, "kv_heads": 1, "batch": 1, "head_dim": 64},
        {"kv_lengths": (53, 30), "heads": 3, "kv_heads": 1, "dtype": "fp32"},
        {"paged": True, "kv_lengths": (50, 0), "kv_heads": 4},
        {"paged": True, "page_size": 5, "kv_dtype": "fp8", "batch": 1},
        {"kv_dtype": "fp8", "head_dim": 128, "heads": 2, "batch": 1},
        {"window": 20, "q_len": 3, "kv_lengths": (50, 2), "kv_heads": 1},
        {"window": 20, "q_len": 3, "kv_lengths": (50, 0), "paged": True, "sinks": True},
        {"kv_dtype": "fp8", "sinks": True, "batch": 1},
        {"softcap": 5.0, "head_dim": 96, "dtype": "fp32", "heads": 1, "kv_heads": 1},
        {"q_len": 9, "heads": 2, "batch": 1, "kv_len": 40},
        {"q_len": 5, "heads": 2, "kv_heads": 1, "kv_lengths": (3, 20)},
        {"head_dim": 256, "heads": 2, "kv_heads": 1, "batch": 1, "kv_len": 40},
        {"head_dim": 80, "kv_heads": 4, "batch": 1, "kv_len": 3}, {"batch": 0}, {"kv_len": 0}, {"q_len": 0},
    ],
    ids=str,
)  # fmt: skip
def test_it_is_right(change):
    assert_right(DecodeSplit(), like(**change), {"splits": 2, "block": 32}, ("normal", "large"))


def test_it_passes_the_gate():
    """With tiny inputs as well."""
    report = gate.check(DecodeSplit(), like(heads=2, kv_heads=1, head_dim=16), "cpu", {"splits": 2, "block": 32})
    assert report.passed, report.sentence


def test_every_number_of_splits_gives_the_same_answer():
    case = like(kv_lengths=(53, 17))
    drawn = inputs.draw(case, "cpu", 5)
    answers = [DecodeCall(case, TUNING | {"splits": splits})(**drawn) for splits in (1, 3, 7)]
    for answer in answers[1:]:
        torch.testing.assert_close(answer, answers[0], rtol=2e-3, atol=2e-4)
    assert torch.equal(DecodeCall(case, TUNING | {"splits": 7})(**drawn), answers[2])


def test_a_position_is_a_length_less_one_and_one_may_stand_for_all():
    case = like()
    drawn = inputs.draw(case, "cpu", 6)
    call = DecodeCall(case, TUNING)
    expected = call(**drawn, lengths=torch.tensor([20, 20], dtype=torch.int32))
    assert torch.equal(call(**drawn, position=torch.tensor([19])), expected)
    assert torch.equal(call(**drawn, lengths=torch.tensor([20])), expected)


def test_q_may_be_a_slice_of_a_packed_product():
    case = like(batch=1)
    drawn = inputs.draw(case, "cpu", 7)
    packed = torch.cat([drawn["q"], torch.randn(1, 1, 4, 32).half()], dim=2)
    call = DecodeCall(case, TUNING)
    assert torch.equal(call(packed[:, :, :4], drawn["k"], drawn["v"]), call(**drawn))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_bad_value_spoils_its_own_head_and_sequence_alone(value):
    case = like()
    drawn = inputs.draw(case, "cpu", 8)
    drawn["k"][1, 11, 0, 3] = value
    out = DecodeCall(case, TUNING)(**drawn)
    spoilt = ~torch.isfinite(out).all(dim=-1)[:, 0]
    assert spoilt[1, :2].any()
    assert not spoilt[0].any()
    assert not spoilt[1, 2:].any()


@pytest.mark.parametrize("length", [-1, 54, 1 << 40])
def test_a_length_that_cannot_be_gives_nan_or_is_told(length):
    case = like()
    drawn = inputs.draw(case, "cpu", 9) | {"lengths": torch.tensor([length, 53])}
    call = DecodeCall(case, TUNING)
    out = call(**drawn)
    assert torch.isnan(out[0]).all()
    assert torch.isfinite(out[1]).all()
    with pytest.raises(ValueError, match=f"^lengths is {length} for sequence 0"):
        call(**drawn, check=True)


@pytest.mark.parametrize(("page", "page_size"), [(-1, 5), (1000, 16)])
def test_a_page_that_there_is_not_gives_nan_or_is_told(page, page_size):
    case = like(paged=True, page_size=page_size)
    drawn = inputs.draw(case, "cpu", 10)
    drawn["page_table"][1, 2] = page
    call = DecodeCall(case, TUNING)
    out = call(**drawn)
    assert torch.isfinite(out[0]).all()
    assert torch.isnan(out[1]).all()
    with pytest.raises(ValueError, match=f"^page_table has page {page} for sequence 1"):
        call(**drawn, check=True)


def test_checked_arguments_that_are_right_pass():
    case = like(paged=True, kv_lengths=(53, 1))
    drawn = inputs.draw(case, "cpu", 11)
    assert torch.isfinite(DecodeCall(case, TUNING)(**drawn, check=True)).all()


CASE = like(paged=True, kv_dtype="fp8", kv_lengths=(53, 30))
WRONG = {
    "q": [torch.zeros(2, 1, 4, 33).half(), torch.zeros(2, 1, 4, 32)],
    "k": [torch.zeros(9, 16, 2, 32).half(), torch.zeros(9, 16, 3, 32).to(torch.float8_e4m3fn)],
    "v": [torch.zeros(8, 16, 2, 32).to(torch.float8_e4m3fn)],
    "lengths": [torch.zeros(3, dtype=torch.int32), torch.zeros(2)],
    "page_table": [torch.zeros(2, 4, dtype=torch.int64), torch.zeros(1, 4, dtype=torch.int32), None],
    "k_scale": [torch.ones(3), None],
    "v_scale": [torch.ones(2).half()],
    "position": [torch.zeros(2, dtype=torch.int64)],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_wrong_argument_is_named(name, value):
    drawn = inputs.draw(CASE, "cpu", 0)
    with pytest.raises(ValueError, match=f"^{name} "):
        DecodeCall(CASE, TUNING)(**drawn | {name: value})


def test_what_the_case_does_not_have_is_refused():
    case = like()
    drawn = inputs.draw(case, "cpu", 0)
    for name, value in (("page_table", torch.zeros(2, 4, dtype=torch.int32)), ("k_scale", torch.ones(2))):
        with pytest.raises(ValueError, match=f"^{name} is given"):
            DecodeCall(case, TUNING)(**drawn | {name: value})
    with pytest.raises(ValueError, match=r"^k has shape"):
        DecodeCall(case, TUNING)(drawn["q"], drawn["k"][:, :40], drawn["v"])


def test_offsets_beyond_32_bits():
    """Strides that carry the second sequence past 2³¹ elements, in memory that is mostly never touched."""
    case = like(heads=1, kv_heads=1, kv_len=16, dtype="fp16")
    far = torch.empty(2**31 + 4096, dtype=torch.float16)
    cache = far.as_strided((2, 16, 1, 32), (2**31, 32, 32, 1))
    drawn = inputs.draw(case, "cpu", 12)
    cache.copy_(drawn["k"])
    out = DecodeCall(case, TUNING)(drawn["q"], cache, drawn["v"])
    truth = reference.compute(case, drawn)[0]
    assert torch.allclose(out.double(), truth, atol=2e-3)
    assert math.isfinite(float(out.sum()))
