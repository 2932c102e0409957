"""The CUDA sources of products with few rows and of the LM head, run thread by thread on a CPU: the right answers."""

import ctypes

import numpy as np
import pytest
import torch

from kernels import registry
from kernels.dtypes import DTYPES
from kernels.gemm import lm_head, lm_head_call, skinny_call, small_call, small_tiles
from kernels.gemm.skinny_tiles import configs
from kernels.ops import GroupedCase, LinearCase, LmHeadCase, reference
from kernels.ops.lm_head import SETTING_DTYPES, TokenFeedback, sample
from kernels.ops.lm_head import logits as logits_of
from kernels.proof import inputs
from kernels.quant import scaled
from kernels.quant.quantised_matrix import STORED_ROWS
from tests.kernels.gemm.grouped_on_cpu import on_cpu
from tests.kernels.on_cpu.translate import library

SMS = 5
LARGER = 1024
"""Bytes by which a block's barriers are larger here."""

SKINNY = """
extern "C" int run(const Params* p, int blocks, int threads, long shared_bytes) {
  return fibers::run(blocks, threads, SPLITS, shared_bytes, [&] { skinny_linear(*p); });
}"""
HEAD = """
extern "C" int run(const Params* p, int blocks, int threads, long shared_bytes, long long* ids, int* arrivals,
                   const Settings* how, const Feedback* feedback) {
#if !TOP
  return fibers::run(blocks, threads, 1, shared_bytes, [&] { lm_head(*p, ids, arrivals, *feedback); });
#else
  const auto find = [&] { lm_head_candidates(*p, *feedback); };
  const auto join = [&] { lm_head_join((const u64*)p->y, ids, blocks, *how, *feedback); };
  return fibers::run(blocks, threads, 1, shared_bytes, find) || fibers::run(p->m, 512, 1, 0, join);
#endif
}"""
SMALL = """
extern "C" int run(const unsigned short* w, int rows, const unsigned short* x, int m, int k, const Params* p,
                   int blocks, int threads, long shared_bytes) {
  const TensorMap of_x{x, m, k, kXRows};
#if INT8 || FP8
  const char* of_w = (const char*)w;
#else
  const TensorMap of_w{w, rows, k, kWRows};
#endif
  return fibers::run(blocks, threads, SPLITS, shared_bytes, [&] { small_gemm(of_w, of_x, *p); });
}"""


def pointer(value):
    return None if value is None else ctypes.c_void_p(value.data_ptr())


def address(params):
    return params.ctypes.data_as(ctypes.c_void_p)


def assert_right(y, case, arguments):
    """Within rounding of the result: the sums are float32."""
    truth = reference.compute(case, arguments)[0]
    assert (y.double() - truth).abs().max() <= torch.finfo(y.dtype).eps * truth.abs().max()


@pytest.mark.parametrize(
    ("kind", "m", "n", "k", "epilogue", "dtype", "picked"),
    [
        ("same", 9, 72, 520, "rmsnorm_scale_swiglu", "bf16", {"splits": 2}),
        ("fp8", 1, 200, 264, "residual", "bf16", {"k_warps": 4}),
        ("int8", 11, 72, 520, "rmsnorm_scale_swiglu", "fp16", {"splits": 2}),
        ("nvfp4", 16, 72, 264, "residual", "bf16", {"splits": 4, "warps": 16}),
        ("int4", 5, 72, 520, "swiglu", "fp16", {"warps": 16}),
        ("int4_zero", 16, 40, 264, "rmsnorm_scale_bias", "bf16", {"row_tiles": 2}),
        ("int4_minimum", 11, 40, 264, "residual", "bf16", {"row_tiles": 2}),
    ],
)
def test_skinny(kind, m, n, k, epilogue, dtype, picked):
    case = LinearCase(m=m, n=n, k=k, dtype=dtype, weights=dtype if kind == "same" else kind, epilogue=epilogue)
    variant = registry.variant("skinny" if kind == "same" else f"skinny_{kind}")
    rows = 2 * (-(-n // 8) * 8) if case.gates else n
    result = configs(kind, m, rows, k, row_bytes=4 + 2 * m)
    config = next(item for item in result if all(getattr(item, name) == value for name, value in picked.items()))
    given = inputs.draw(case, "cpu", 1)
    stream, *scales = skinny_call.pack_weight(config, given["w"], dtype, case.gates)
    extra = {name: given[name] for name in ("bias", "residual") if name in given}
    extra |= {"row_scales": scales[0]} if scales else {}
    counters = torch.zeros(2, dtype=torch.int32)
    max_active = max(1, SMS // config.splits)
    for pdl in (False, True):
        dynamic = pdl and skinny_call.can_schedule_dynamically(config, case)
        extra |= {"counters": counters} if dynamic else {}
        kernel = library(
            skinny_call.SOURCE, SKINNY, skinny_call.macros(config, dtype, case.gates, case.normalises, dynamic)
        )
        y = torch.full((m, n), float("nan"), dtype=DTYPES[dtype])
        params = skinny_call.parameters(
            config, max_active, pdl, stream=stream, x=given["x"], y=y, n=n, eps=1e-6, **extra
        )
        blocks = config.groups(max_active) * config.splits
        shared = ctypes.c_long(config.shared_bytes(max_active, pdl) + LARGER)
        assert kernel.run(address(params), blocks, config.warps * 32 + 64, shared) == 0
        assert_right(y, case, variant.rounded(case, {}, given))
        assert not counters.any()


@pytest.mark.parametrize(
    ("weights", "rows", "experts", "n", "k", "epilogue", "dtype", "k_warps"),
    [
        ("mxfp4", 4, 40, 24, 328, "swigluoai", "bf16", 2), ("mxfp4", 40, 3, 72, 200, "bias", "fp16", 2),
        ("int8", 8, 70, 24, 1096, "swiglu", "bf16", 4), ("int8", 33, 4, 40, 72, "none", "bf16", 4),
    ],
)  # fmt: skip
def test_experts_with_few_rows(weights, rows, experts, n, k, epilogue, dtype, k_warps):
    """Fewer rows than experts and more, several rounds of an expert's rows, gathered and sorted ones."""
    gathers = True if "swiglu" in epilogue else None
    case = GroupedCase(
        rows=rows, experts=experts, n=n, k=k, dtype=dtype, epilogue=epilogue, weights=weights, gathers=gathers
    )
    variant, given = registry.variant(f"grouped_{weights}"), inputs.draw(case, "cpu", 1)
    y = on_cpu(case, {"k_warps": k_warps})(**given | {"w": variant.pack(case, {}, given["w"])})
    assert_right(y, case, variant.rounded(case, {}, given))


@pytest.mark.parametrize(
    ("m", "vocab", "k", "sampling", "weights"),
    [
        (5, 1009, 64, "argmax", "fp8"), (3, 777, 72, "top_k_p", "int8"), (16, 777, 72, "top_k_p", "nvfp4"),
        (1, 1009, 64, "argmax", "bf16"), (1, 777, 72, "top_k_p", "int4"),
    ],
)  # fmt: skip
def test_lm_head(m, vocab, k, sampling, weights):
    case = LmHeadCase(m=m, vocab=vocab, k=k, sampling=sampling, weights=weights)
    variant = registry.variant("lm_head_skinny" if weights == "bf16" else f"lm_head_skinny_{weights}")
    given = inputs.draw(case, "cpu", 2)
    assert torch.equal(tokens(case, variant, given), reference.compute(case, variant.rounded(case, {}, given))[0])


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(("x", "w"), [(NAN, None), (-INFINITY, None), (None, NAN), (None, INFINITY)])
@pytest.mark.parametrize("sampling", ["argmax", "top_k_p"])
def test_numbers_that_are_not_finite_follow_the_reference(x, w, sampling):
    """In one row, or in one token's weights, of which all rows have a logit; other rows keep their tokens."""
    case = LmHeadCase(m=6, vocab=40, k=64, sampling=sampling)
    variant, given = registry.variant("lm_head_skinny"), inputs.draw(case, "cpu", 2)
    before = tokens(case, variant, given)
    if x is not None:
        given["x"][1, 5] = x
    else:
        given["w"][int(before[1]), 5] = w
    after = tokens(case, variant, given)
    assert torch.equal(after, case.reference({**given, "x": given["x"].float()})[0])
    if x is not None:
        assert torch.equal(after[[0, 2, 3, 4, 5]], before[[0, 2, 3, 4, 5]])


@pytest.mark.parametrize(("top_p", "top_k"), [(0.9, 63), (0.4, 20), (1.0, 1)])
def test_many_draws_are_those_of_the_reference(top_p, top_k):
    """Of the same 16 logits, some of them equal, at sixteen temperatures, seeds, streams and indices."""
    case = LmHeadCase(m=16, vocab=300, k=64, sampling="top_k_p")
    given = inputs.draw(case, "cpu", 3)
    given["w"][100:140] = given["w"][:40]
    given |= {"temperature": torch.linspace(0.3, 2, 16), "top_p": torch.full((16,), top_p)}
    exact = logits_of(given["x"].double(), given["w"].double())
    expected = sample(exact, {name: given[name] for name in SETTING_DTYPES}, top_k)
    result = tokens(case, registry.variant("lm_head_skinny"), given, top_k=top_k)
    known = result >= 0
    assert torch.equal(result[known], expected[known])
    kept = exact.float() >= exact.float().topk(top_k).values[:, -1:]
    assert torch.equal(known, kept.sum(dim=1) < 64)
    assert known.any()


def test_each_row_may_have_a_top_k_of_its_own():
    """The token of a row is the one that it gets where all rows have its top-k; the least is 1 and the most 63."""
    case = LmHeadCase(m=16, vocab=300, k=64, sampling="top_k_p")
    given = inputs.draw(case, "cpu", 3) | {"temperature": torch.full((16,), 3.0), "top_p": torch.full((16,), 0.9)}
    given["temperature"][6] = 0
    rows_of_block = torch.tensor([1, 2, 5, 20, 40, 63, 0, -1, 1 << 40, 1, 2, 5, 20, 40, 63, 50])
    result = tokens(case, registry.variant("lm_head_skinny"), given, top_k=rows_of_block)
    alike = {
        value: tokens(case, registry.variant("lm_head_skinny"), given, top_k=value)
        for value in (1, 2, 5, 20, 40, 50, 63)
    }
    assert result.tolist() == [int(alike[each][row]) for row, each in enumerate(rows_of_block.clamp(1, 63).tolist())]
    assert len({tuple(value.tolist()) for value in alike.values()}) == len(alike)


def test_more_equal_logits_than_candidates_are_refused():
    """-1 where top-k keeps 64 tokens or more; a greedy row takes the first."""
    case = LmHeadCase(m=4, vocab=200, k=64, sampling="top_k_p")
    given = inputs.draw(case, "cpu", 3)
    given["w"][:64] = given["w"][70]
    given["x"][0] = 0
    given["x"][1] = given["w"][70]  # of 65 equal logits, the largest
    given["x"][2] = -given["w"][70]  # the smallest
    given["x"][3] = 0
    result = tokens(case, registry.variant("lm_head_skinny"), given, top_k=5)
    assert result[[0, 1, 3]].tolist() == [-1, -1, 0]
    assert result[2] >= 64


@pytest.mark.parametrize("sampling", ["argmax", "top_k_p"])
def test_the_head_prepares_the_next_step(sampling):
    """Ids into the token and the host's copy, at the position that has moved on; their embeddings into the stream."""
    case = LmHeadCase(m=3, vocab=777, k=72, sampling=sampling)
    given = inputs.draw(case, "cpu", 2)
    expected = reference.compute(case, given)[0]
    embedding = torch.randn(777, 72, dtype=torch.bfloat16)
    feedback = TokenFeedback(
        token=torch.full((3, 1), -1, dtype=torch.int64), position=torch.tensor([5]), moves=torch.tensor([2]),
        embedding=embedding, stream=torch.zeros(3, 72, dtype=torch.bfloat16),
        seen=torch.full((9, 3), -1, dtype=torch.int64),
    )  # fmt: skip
    assert torch.equal(tokens(case, registry.variant("lm_head_skinny"), given, feedback), expected)
    assert torch.equal(feedback.token[:, 0], expected)
    assert feedback.position.item() == 7
    assert torch.equal(feedback.stream, embedding[expected])
    assert torch.equal(feedback.seen[7], expected)
    assert int((feedback.seen == -1).sum()) == 24
    feedback.position.fill_(20)  # beyond what the host watches
    tokens(case, registry.variant("lm_head_skinny"), given, feedback)
    assert int((feedback.seen == -1).sum()) == 24


def tokens(case, variant, given, feedback=None, top_k=50):
    """What the LM head answers, in one launch or in two."""
    config, top = lm_head._configs(case)[0], lm_head_call.CANDIDATES if case.sampling == "top_k_p" else 0
    stream, *scales = variant.pack(case, {}, given["w"])
    blocks, ids = (
        config.groups(SMS),
        torch.full((case.m,), -1, dtype=torch.int64) if feedback is None else feedback.token,
    )
    result = torch.full((case.m, blocks, top or 1), -1, dtype=torch.int64)
    extra = {"row_scales": scales[0]} if scales else {}
    params = skinny_call.parameters(config, SMS, False, stream=stream, x=given["x"], y=result, n=case.vocab, **extra)
    kernel = library(lm_head_call.SOURCE, HEAD, lm_head_call.head_macros(config, case, SMS))
    shared = ctypes.c_long(config.shared_bytes(SMS, False) + LARGER)
    arrivals, settings = torch.zeros(1, dtype=torch.int32), {name: given.get(name) for name in SETTING_DTYPES}
    how = address(lm_head_call.pack_settings(settings, top_k, case.vocab))
    rest = pointer(ids), pointer(arrivals), how, address(lm_head_call.pack_feedback(feedback))
    assert kernel.run(address(params), blocks, config.warps * 32 + 64, shared, *rest) == 0
    assert arrivals.item() == 0
    return ids.view(-1)


@pytest.mark.parametrize(
    ("m", "n", "k", "epilogue", "dtype", "picked", "ring"),
    [
        (33, 104, 328, "bias", "bf16", (1, 3, 1), {}),
        (48, 72, 392, "rmsnorm_scale_swiglu", "fp16", (3, 1, 1), {"STAGES": 2}),
        (64, 72, 520, "residual", "fp16", (1, 8, 1), {"ALIAS": 1}),
        (190, 40, 264, "rmsnorm_scale_swiglu", "bf16", (1, 2, 2), {}),
        (150, 200, 264, "residual", "fp16", (3, 1, 1, 56), {"STAGES": 2}),
        (256, 304, 136, "bias", "bf16", (4, 1, 1, 136), {}),
        (140, 104, 328, "rmsnorm_scale_bias", "bf16", (2, 1, 2, 80), {"STAGES": 3}),
        (20, 40, 264, "swiglu", "int8", (3, 1, 1), {"STAGES": 2}),
        (33, 104, 328, "bias", "fp8", (1, 3, 1), {}),
        (64, 72, 520, "residual", "fp8", (2, 4, 1), {"ALIAS": 1}),
        (20, 40, 264, "swiglu", "fp8", (3, 1, 1), {"STAGES": 2}),
    ],
)
def test_small(m, n, k, epilogue, dtype, picked, ring):
    """Whole and split, stages filled again, sums in place of the ring, rows of w across, int8 and e4m3 with scales."""
    weights, dtype = dtype, dtype if dtype == "fp16" else "bf16"
    case = LinearCase(m=m, n=n, k=k, dtype=dtype, weights=weights, epilogue=epilogue)
    config, given = small_tiles.SmallTileConfig(case, *picked), inputs.draw(case, "cpu", 1)
    packed, exact = given["w"], given
    if weights != dtype:
        variant = registry.variant(f"small_gemm_{weights}")
        if weights == "fp8":
            codes, scales = scaled.of_w(given["w"], "row")
            given["w"] = (codes.float() * scales).bfloat16()
            setattr(given["w"], STORED_ROWS, scales[:, 0])
        packed, exact = variant.pack(case, {}, given["w"]), variant.rounded(case, {}, given)
    y = torch.full((m, n), float("nan"), dtype=DTYPES[dtype])
    result = np.zeros((), small_call.PARAMS)
    result["m"], result["n"], result["k"], result["y"] = m, n, k, y.data_ptr()
    result["inverse_k"], result["eps"] = 1 / k, 1e-6
    for name in ("bias", "residual"):
        result[name] = given[name].data_ptr() if name in given else 0
    kernel = library(small_call.SOURCE, SMALL, small_call.macros(config) | ring)
    ran = kernel.run(
        pointer(packed), case.weight_rows, pointer(given["x"]), m, k, address(result), config.blocks, config.threads,
        ctypes.c_long(config.shared_bytes + config.sums_bytes),
    )  # fmt: skip
    assert ran == 0
    assert_right(y, case, exact)


def test_threads_that_wait_for_each_other_are_told():
    config = configs("same", 1, 16, 64)[0]
    kernel = library(skinny_call.SOURCE, SKINNY, skinny_call.macros(config, "bf16", False, False))
    stream = torch.zeros(config.units * config.steps * config.step_bytes, dtype=torch.uint8)
    x, y = (torch.zeros(1, value, dtype=torch.bfloat16) for value in (64, 16))
    params = skinny_call.parameters(config, SMS, False, stream=stream, x=x, y=y, n=16, eps=1e-6)
    shared = ctypes.c_long(config.shared_bytes(SMS, False) + LARGER)
    assert kernel.run(address(params), 1, config.warps * 32 + 32, shared) == 1  # without the warp that fetches the rest
