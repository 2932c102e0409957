"""Sampling as the reference has it; the LM head's refusals and source. On a GPU: gate, truncation, distribution."""

import dataclasses
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels import registry
from kernels.gemm.lm_head import _configs
from kernels.gemm.lm_head_call import SOURCE, head_macros
from kernels.gemm.skinny_config import CANDIDATES_BYTES
from kernels.hardware import GPUS
from kernels.ops import LmHeadCase
from kernels.ops import lm_head as op
from kernels.proof import gate, inputs
from tests.kernels.compiling import compile_log

CASE = LmHeadCase(m=4, vocab=200, k=64)
VARIANTS = ("lm_head_skinny", "lm_head_skinny_fp8", "lm_head_skinny_nvfp4", "lm_head_skinny_int4")


def splitmix(seed: int) -> float:
    """The published generator, in Python's own integers."""
    mask = (1 << 64) - 1
    z = (seed + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
    return ((z ^ z >> 31) >> 40) / (1 << 24)


@given(st.integers(-(2**63), 2**63 - 1))
def test_the_number_of_a_seed_is_splitmix64(seed):
    assert float(op.uniform(torch.tensor([seed]))[0]) == splitmix(seed)


def settings(m, temperature=1.0, top_p=1.0):
    return {"temperature": torch.full((m,), temperature), "top_p": torch.full((m,), top_p), "seed": torch.arange(m)}


def test_a_draw_follows_the_probabilities_of_those_kept():
    logits = torch.tensor([3.0, 2.5, 1.0, 0.5, -9.0]).expand(20_000, 5)
    ids = op.sample(logits, **settings(20_000, 0.8, 0.95), top_k=4)
    share = torch.softmax(logits[0, :4].double() / 0.8, dim=0)
    assert ids.max() == 2  # 0.95 is reached by three
    wanted = share[:3] / share[:3].sum()
    found = torch.bincount(ids, minlength=3) / 20_000
    assert (found - wanted).abs().max() < 4 * (0.25 / 20_000) ** 0.5


@pytest.mark.parametrize(("temperature", "top_p", "top_k"), [(0.0, 1.0, 50), (1.0, 0.0, 50), (1.0, 1.0, 1)])
def test_the_largest_alone_may_be_left(temperature, top_p, top_k):
    logits = torch.randn(50, 300, generator=torch.Generator().manual_seed(1))
    ids = op.sample(logits, **settings(50, temperature, top_p), top_k=top_k)
    assert torch.equal(ids, logits.argmax(dim=1))


def test_the_gate_tells_a_wrong_draw():
    case = CASE.model_copy(update={"sampling": "top_k_p", "dtype": "fp32", "weights": "fp32"})
    assert gate.check(registry.variant("torch_lm_head_sampling"), case, "cpu").passed

    class Off(type(registry.variant("torch_lm_head_sampling"))):
        def build(self, case, params):
            draw = super().build(case, params)
            return lambda x, w, temperature, top_p, seed: draw(x, w, temperature, top_p, seed + 1)

    assert "error" in gate.check(Off(), case, "cpu").sentence


@pytest.mark.parametrize(
    ("change", "gpu", "reason"),
    [
        ({"m": 17}, "h200", "m is 17"),
        ({"m": 16, "k": 16_384}, "h200", "m is 16"),
        ({"k": 36}, "h200", "k is 36"),
        ({"weights": "fp8"}, "h200", "weights is fp8"),
        ({"dtype": "fp32", "weights": "fp32"}, "h200", "dtype is fp32"),
        ({}, "a100", "device is NVIDIA A100"),
    ],
)
def test_it_refuses_with_the_field_and_the_value(change, gpu, reason):
    refusal = registry.variant("lm_head_skinny").serves(CASE.model_copy(update=change), GPUS[gpu])
    assert refusal is not None
    assert reason in refusal.reason


@pytest.mark.parametrize("weights", ["bf16", "fp8", "nvfp4", "int4"])
@pytest.mark.parametrize("sampling", ["argmax", "top_k_p"])
def test_nothing_is_spilled(weights, sampling):
    case = LmHeadCase(m=16, vocab=128_256, k=2048, weights=weights, sampling=sampling)
    config = max(_configs(case), key=lambda each: each.warps)
    log = compile_log(SOURCE, head_macros(config, case, 132))
    assert log.count(" 0 bytes spill stores, 0 bytes spill loads") == 2
    assert max(int(each) for each in re.findall(r"(\d+) bytes smem", log)) <= CANDIDATES_BYTES


def test_sums_are_kept_only_to_be_looked_at_again():
    for sampling, kept in (("argmax", 0), ("top_k_p", 61)):
        best = _configs(LmHeadCase(m=1, vocab=128_256, k=2048, sampling=sampling))[0]
        assert dataclasses.replace(best, k_warps=8, warps=8).kept_units(132) == kept


def test_an_argument_on_the_host_is_named():
    variant, drawn = registry.variant("lm_head_skinny"), inputs.draw(CASE, "cpu", 1)
    with pytest.raises(ValueError, match="x is on cpu, not on a GPU"):
        variant.build(CASE, {})(**gate.pack(variant, CASE, {}, drawn))


@pytest.mark.gpu
@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("sampling", ["argmax", "top_k_p"])
@pytest.mark.parametrize(("m", "vocab", "k"), [(1, 1009, 256), (5, 40, 64), (16, 20_011, 1032), (0, 100, 64)])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_the_gate_passes(name, sampling, m, vocab, k, dtype):
    variant = registry.variant(name)
    case = LmHeadCase(m=m, vocab=vocab, k=k, sampling=sampling, dtype=dtype, weights=variant.weights or dtype)
    for params in ({}, {"pdl": True}):
        report = gate.check(variant, case, "cuda", params)
        assert report.passed, report.sentence


@pytest.mark.gpu
def test_equal_logits_go_to_the_earliest_tokens():
    case = LmHeadCase(m=2, vocab=9000, k=64, sampling="top_k_p")
    variant = registry.variant("lm_head_skinny")
    weight = variant.pack(case, {}, torch.ones(9000, 64, device="cuda", dtype=torch.bfloat16))
    x = torch.ones(2, 64, device="cuda", dtype=torch.bfloat16)
    call, seen = variant.build(case, {}), set()
    ones = torch.ones(2, device="cuda")
    for seed in range(300):
        seen.update(call(x, weight, ones, ones, torch.tensor([seed, seed + 1000], device="cuda"), top_k=5).tolist())
    assert seen == {0, 1, 2, 3, 4}


@pytest.mark.gpu
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_rows_without_numbers_take_the_largest_and_leave_the_others_alone(value):
    case = LmHeadCase(m=3, vocab=1000, k=64, sampling="top_k_p")
    variant, drawn = registry.variant("lm_head_skinny"), inputs.draw(case, "cuda", 4)
    drawn["w"] = variant.pack(case, {}, drawn["w"])
    call, drawn["temperature"] = variant.build(case, {}), torch.ones(3, device="cuda")
    greedy = variant.build(case.model_copy(update={"sampling": "argmax"}), {})
    before = call(**drawn)
    drawn["x"][1, 5] = value
    after = call(**drawn)
    assert after[[0, 2]].tolist() == before[[0, 2]].tolist()
    assert int(after[1]) == int(greedy(drawn["x"], variant.pack(case, {}, inputs.draw(case, "cuda", 4)["w"]))[1])


@pytest.mark.gpu
def test_draws_follow_the_distribution():
    case = LmHeadCase(m=16, vocab=5000, k=256, sampling="top_k_p")
    variant, drawn = registry.variant("lm_head_skinny"), inputs.draw(case, "cuda", 9)
    drawn["x"][:] = drawn["x"][:1]
    weight, call = variant.pack(case, {}, drawn["w"]), variant.build(case, {})
    heat, share = torch.full((16,), 0.9, device="cuda"), torch.full((16,), 0.8, device="cuda")
    count = torch.zeros(5000, device="cuda")
    for draw in range(1250):
        seed = torch.arange(16, device="cuda") + 16 * draw
        count += torch.bincount(call(drawn["x"], weight, heat, share, seed), minlength=5000)
    logits = op.logits(drawn["x"][:1].double(), drawn["w"].double())
    order, until, _ = op.distribution(logits, heat[:1], share[:1], torch.zeros(1, dtype=torch.int64), 50)
    wanted = torch.zeros(5000, dtype=torch.float64, device="cuda")
    wanted[order[0]] = torch.diff(until[0], prepend=torch.zeros(1, device="cuda", dtype=torch.float64))
    assert count[wanted == 0].sum() == 0
    there = wanted * 20_000 > 5
    chi = ((count[there] - wanted[there] * 20_000) ** 2 / (wanted[there] * 20_000)).sum()
    assert chi < int(there.sum()) + 5 * (2 * int(there.sum())) ** 0.5


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"top_k": 65}, "top_k is 65"),
        ({"seed": None}, "seed is missing"),
        ({"top_p": torch.ones(3)}, "top_p has shape"),
    ],
)
def test_a_wrong_setting_is_named(change, message):
    case = LmHeadCase(m=2, vocab=100, k=64, sampling="top_k_p")
    variant, drawn = registry.variant("lm_head_skinny"), inputs.draw(case, "cuda", 1)
    with pytest.raises(ValueError, match=message):
        variant.build(case, {})(**drawn | {"w": variant.pack(case, {}, drawn["w"])} | change)
