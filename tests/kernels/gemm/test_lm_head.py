"""Sampling as the reference has it; the LM head's refusals and source. On a GPU: gate, truncation, distribution."""

import re

import pytest
import torch

from kernels import registry
from kernels.fused import torch_sampling
from kernels.gemm.lm_head import _configs
from kernels.gemm.lm_head_call import SOURCE, head_macros
from kernels.gemm.skinny_tiles import CANDIDATES_BYTES
from kernels.ops import LmHeadCase
from kernels.ops import lm_head as op
from kernels.proof import gate, inputs
from tests.kernels.compiling import compile_log

CASE = LmHeadCase(m=4, vocab=200, k=64)
VARIANTS = (
    "lm_head_skinny", "lm_head_skinny_int8", "lm_head_skinny_fp8", "lm_head_skinny_nvfp4", "lm_head_skinny_int4",
)  # fmt: skip


def settings(m, temperature=1.0, top_p=1.0, device="cpu"):
    """Alike for all rows but for their seeds."""
    result = {"temperature": torch.full((m,), temperature), "top_p": torch.full((m,), top_p), "seed": torch.arange(m)}
    result |= {"stream": torch.zeros(m, dtype=torch.int64), "index": torch.full((m,), 7)}
    return {name: value.to(device) for name, value in result.items()}


def by_torch(logits, given, top_k):
    return torch_sampling.sample(logits, *(given[name] for name in op.SETTING_DTYPES), top_k)


DRAWS = {"reference": op.sample, "torch": by_torch}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_draw_follows_the_probabilities_of_those_kept(draw):
    logits = torch.tensor([3.0, 2.5, 1.0, 0.5, -9.0]).expand(8_000, 5)
    ids = draw(logits, settings(8_000, 0.8, 0.95), 4)
    share = torch.softmax(logits[0, :4].double() / 0.8, dim=0)
    assert ids.max() == 2  # 0.95 is reached by three
    wanted = share[:3] / share[:3].sum()
    result = torch.bincount(ids, minlength=3) / 8_000
    assert (result - wanted).abs().max() < 4 * (0.25 / 8_000) ** 0.5


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize(("temperature", "top_p", "top_k"), [(0.0, 1.0, 50), (1.0, 1e-6, 50), (1.0, 1.0, 1)])
def test_the_largest_alone_may_be_left(temperature, top_p, top_k, draw):
    logits = torch.randn(50, 300, generator=torch.Generator().manual_seed(1))
    assert torch.equal(draw(logits, settings(50, temperature, top_p), top_k), logits.argmax(dim=1))


@pytest.mark.parametrize("top_p", [1.0, 0.8])
def test_torch_draws_the_tokens_of_the_reference(top_p):
    """Equal logits, NaN and infinity included; -1 where top-k keeps more than 63 tokens."""
    logits = torch.randn(40, 300, generator=torch.Generator().manual_seed(2)) * 2
    logits[:8] = (logits[:8] * 2).round() / 2
    logits[8:16, 5:9] = float("nan")
    logits[16, 3], logits[17, :290], logits[18] = float("inf"), -float("inf"), float("nan")
    given = settings(40, 0.9, top_p)
    result, expected = by_torch(logits, given, 20), op.sample(logits, given, 20)
    assert (result >= 0).sum() > 35
    assert torch.equal(result[result >= 0], expected[result >= 0])
    logits[0] = 1.0
    assert by_torch(logits, given, 5)[0] == -1


def test_torch_draws_with_a_top_k_of_each_row():
    logits, rows_of_block = (
        torch.randn(6, 300, generator=torch.Generator().manual_seed(3)),
        torch.tensor([1, 3, 20, 63, 0, 999]),
    )
    given = settings(6, 2.0)
    alike = [by_torch(logits, given, item) for item in rows_of_block.clamp(1, 63).tolist()]
    assert by_torch(logits, given, rows_of_block).tolist() == [int(each[row]) for row, each in enumerate(alike)]
    assert len({tuple(item.tolist()) for item in alike}) == 4


@pytest.mark.parametrize("changed", ["seed", "temperature"])
def test_the_gate_tells_a_wrong_draw(changed):
    case = CASE.model_copy(update={"sampling": "top_k_p", "dtype": "fp32", "weights": "fp32"})
    assert gate.check(registry.variant("torch_lm_head_sampling"), case, "cpu").passed

    class Off(type(registry.variant("torch_lm_head_sampling"))):
        def build(self, case, params):
            draw = super().build(case, params)
            return lambda **kwargs: draw(**kwargs | {changed: kwargs[changed] + 1})

    assert "error" in gate.check(Off(), case, "cpu").sentence


@pytest.mark.parametrize("wrong", ["top_k", "top_p"])
def test_the_gate_tells_tokens_that_should_have_been_left_out(wrong):
    """Without top-k 150 more tokens compete, without top-p some ten of the 50."""
    case = CASE.model_copy(update={"m": 64, "sampling": "top_k_p", "dtype": "fp32", "weights": "fp32"})

    class Off(type(registry.variant("torch_lm_head_sampling"))):
        def build(self, case, params):
            def draw(x, w, **kwargs):
                kwargs |= {"top_p": torch.ones_like(kwargs["top_p"])} if wrong == "top_p" else {}
                return op.sample(x @ w.T, kwargs, 0 if wrong == "top_k" else op.TOP_K)

            return draw

    assert "error" in gate.check(Off(), case, "cpu").sentence


@pytest.mark.parametrize(
    ("weights", "m", "sampling", "kernels"),
    [("bf16", 16, "top_k_p", 2), ("fp8", 1, "top_k_p", 2), ("nvfp4", 16, "argmax", 1), ("int4", 16, "top_k_p", 2)],
)
def test_nothing_is_spilled(weights, m, sampling, kernels):
    case = LmHeadCase(m=m, vocab=128_256, k=2048, weights=weights, sampling=sampling)
    config = max(_configs(case), key=lambda each: each.warps)
    log = compile_log(SOURCE, head_macros(config, case, 132))
    assert log.count(" 0 bytes spill stores, 0 bytes spill loads") == kernels
    assert max(int(item) for item in re.findall(r"(\d+) bytes smem", log)) <= CANDIDATES_BYTES


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
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"top_k": 64}, "top_k is 64: from 1 to 63"), ({"seed": None}, "seed is missing"),
        ({"top_p": torch.ones(3)}, "top_p has shape"), ({"top_k": torch.ones(2)}, "top_k"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(change, message):
    case = LmHeadCase(m=2, vocab=100, k=64, sampling="top_k_p")
    variant, drawn = registry.variant("lm_head_skinny"), inputs.draw(case, "cuda", 1)
    with pytest.raises(ValueError, match=message):
        variant.build(case, {})(**drawn | {"w": variant.pack(case, {}, drawn["w"])} | change)
