"""What variants do not serve is refused in a sentence that begins with the field, and bad params are named."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernels import registry
from kernels.check_args import TensorLayout, check_presence, check_qkv, check_tensor
from kernels.hardware import GPUS
from kernels.ops import (
    AttentionCase,
    Case,
    FftConvCase,
    GatedCase,
    GroupedCase,
    LinearCase,
    LmHeadCase,
    RmsNormCase,
    RopeCase,
    StepAttentionCase,
)

PREFILL = AttentionCase(kind="prefill", head_dim=64, heads=4, kv_heads=2, batch=1, q_len=8, kv_len=8)
DECODE = AttentionCase(kind="decode", head_dim=64, heads=32, kv_heads=8, batch=8, q_len=1, kv_len=8192)
STEP = StepAttentionCase(batch=2, heads=8, kv_heads=2, head_dim=64, kv_len=100)
LINEAR, HEAD = LinearCase(m=64, n=64, k=64), LmHeadCase(m=4, vocab=200, k=64)
GROUPED = GroupedCase(rows=300, experts=4, n=264, k=320)
CONVOLUTION = FftConvCase(batch=2, width=4, length=1000, filter=1000)
ROPE = RopeCase(batch=1, q_len=1, heads=2, kv_heads=1, head_dim=64)
FP32, FP8 = {"dtype": "fp32", "weights": "fp32"}, {"weights": "fp8", "scales": "row"}
KV32 = {"dtype": "fp32", "kv_dtype": "fp32"}

Change = dict[str, Any]
REFUSED: dict[tuple[str, str], tuple[Case, list[tuple[Change, str]]]] = {
    ("decode_hopper", "h200"): (DECODE, [
        (KV32, "dtype is fp32"), ({"kv_dtype": "fp16"}, "kv_dtype is fp16"), ({"q_len": 2}, "q_len is 2"),
        ({"head_dim": 96}, "head_dim is 96"), ({"heads": 72}, "heads is 72"), ({"window": 64}, "window is 64"),
        ({"softcap": 30.0}, "softcap is 30"), ({"paged": True, "page_size": 24}, "page_size is 24"),
        ({"sinks": True}, "sinks are given")]),
    ("decode_hopper", "a100"): (DECODE, [({}, "device is NVIDIA A100")]),
    ("decode_split", "h200"): (DECODE, [
        ({"kv_dtype": "fp16"}, "kv_dtype is fp16"), ({"q_len": 17}, "q_len is 17"),
        ({"q_len": 9, "kv_dtype": "fp8"}, "q_len is 9"), ({"head_dim": 320}, "head_dim is 320"),
        ({"heads": 9}, "heads is 9"), ({"window": 0}, "window is 0"), ({"softcap": 0.0}, "softcap is 0"),
        ({"batch": 70_000}, "batch is 70000"), ({"lengths": (3, 5)}, "2 sequences are packed")]),
    ("decode_split", "a100"): (DECODE, [({"kv_dtype": "fp8"}, "device is NVIDIA A100")]),
    ("decode_split", "cpu"): (DECODE, [({}, "device is CPU")]),
    ("flash_hopper", "h200"): (PREFILL, [
        ({"kind": "decode"}, "kind is decode"), ({"head_dim": 96}, "head_dim is 96"), (KV32, "dtype is fp32"),
        ({"kv_dtype": "fp8"}, "kv_dtype is fp8"), ({"paged": True}, "keys and values are paged"),
        ({"lengths": (3, 5)}, "2 lengths are given"), ({"softcap": 30.0}, "softcap is 30"),
        ({"heads": 3}, "heads is 3"), ({"window": 0}, "window is 0"), ({"sinks": True}, "sinks are given")]),
    ("flash_hopper", "b200"): (PREFILL, [({}, "device is NVIDIA B200")]),
    ("flash_triton", "h200"): (PREFILL, [
        ({"kind": "decode"}, "kind is decode"), ({"kv_dtype": "fp8"}, "kv_dtype is fp8"),
        ({"paged": True}, "keys and values are paged"), ({"heads": 3}, "heads is 3"),
        ({"head_dim": 320}, "head_dim is 320"), ({"window": 0}, "window is 0"), ({"softcap": -1.0}, "softcap is -1")]),
    ("flash_blackwell", "b200"): (PREFILL, [
        ({"kind": "decode"}, "kind is decode"), ({"head_dim": 96}, "head_dim is 96"),
        ({"kv_dtype": "fp8"}, "kv_dtype is fp8"), ({"softcap": 30.0}, "softcap is 30"),
        ({"sinks": True}, "sinks are given")]),
    ("step_hopper", "h200"): (STEP, [
        ({"dtype": "fp32"}, "dtype is fp32"), ({"head_dim": 96}, "head_dim is 96"),
        ({"heads": 7}, "heads is 7, not a multiple of kv_heads 2"), ({"heads": 32}, "heads is 32 on 2 kv_heads"),
        ({"kv_len": 20_000}, "kv_len is 20000"), ({"window": 0}, "window is 0"),
        ({"batch": 70_000}, "batch is 70000")]),
    ("step_hopper", "a100"): (STEP, [({}, "device is NVIDIA A100")]),
    **{(name, "h200"): (DECODE.model_copy(update={"batch": 1, "kv_len": 65_536}), [
        ({"q_len": 2}, "q_len is 2"), ({"window": 9}, "window is 9"), (KV32, "dtype is fp32")]) for name in
        ("sdpa_flash_packed", "sdpa_cudnn_packed", "torch_flex_decode")},
    ("sdpa_flash", "h200"): (PREFILL, [
        ({"softcap": 30.0}, "softcap is 30"), (KV32, "dtype is fp32"), ({"head_dim": 320}, "head_dim is 320"),
        ({"sinks": True}, "sinks are given"), ({"kv_len": 16}, "q_len is 8 and kv_len 16")]),
    ("sdpa_cudnn", "h200"): (PREFILL, [({"head_dim": 36}, "head_dim is 36"), ({"window": 4}, "window is 4")]),
    ("sdpa_math", "cpu"): (PREFILL, [
        ({"paged": True}, "keys and values are paged"), ({"kv_dtype": "fp8"}, "kv_dtype is fp8"),
        ({"q_len": 16}, "q_len is 16 and kv_len 8"), ({"batch": 0}, "batch or a length is 0"),
        ({"heads": 3}, "heads is 3")]),
    ("sdpa_mem_efficient", "cpu"): (PREFILL, [({}, "device is CPU")]),
    ("torch_linear", "h200"): (LINEAR, [({"weights": "fp8"}, "weights is fp8")]),
    ("int8_dynamic_cpu", "h200"): (LINEAR, [({"weights": "int8"}, "device is NVIDIA H200")]),
    ("int8_dynamic_cpu", "cpu"): (LINEAR, [
        ({}, "weights is bf16"), ({"weights": "int8", "epilogue": "swiglu"}, "epilogue is swiglu"),
        ({"weights": "int8", "k": 1}, "k is 1")]),
    ("skinny", "h200"): (LINEAR.model_copy(update={"m": 4}), [
        ({"m": 17}, "m is 17"), ({"k": 36}, "k is 36"), ({"k": 2**20, "m": 16}, "k is 1048576"),
        (FP32, "dtype is fp32"), ({"weights": "int8"}, "weights is int8"),
        ({"epilogue": "quantise"}, "epilogue is quantise")]),
    ("small_gemm", "h200"): (LINEAR, [
        ({"m": 257}, "m is 257"), ({"m": 8}, "m is 8"), ({"n": 60}, "n is 60"),
        ({"weights": "fp8"}, "weights is fp8")]),
    ("small_gemm_int8", "h200"): (LINEAR, [
        ({"weights": "int8", "dtype": "fp16"}, "dtype is fp16"), ({}, "weights is bf16")]),
    ("small_gemm_fp8", "h200"): (LINEAR, [
        ({"weights": "fp8", "dtype": "fp16"}, "dtype is fp16"), (FP8, "weights is fp8 with row scales")]),
    ("small_gemm", "a100"): (LINEAR, [({}, "device is NVIDIA A100")]),
    ("gemm_hopper", "h200"): (LINEAR, [
        ({"weights": "int4"}, "weights int4"), ({"k": 36}, "k is 36"), ({"n": 12, "epilogue": "swiglu"}, "n is 12"),
        (FP8, "weights fp8")]),
    ("gemm_hopper", "b200"): (LINEAR, [({}, "device is NVIDIA B200")]),
    ("gemm_hopper_fp8", "h200"): (LINEAR, [
        ({"weights": "fp8"}, "no scales"), (FP8 | {"k": 24}, "k is 24"),
        (FP8 | {"epilogue": "rmsnorm_scale"}, "epilogue is rmsnorm_scale"),
        ({"weights": "fp8", "scales": "block", "epilogue": "swiglu"}, "epilogue is swiglu")]),
    ("torch_scaled_mm", "h200"): (LINEAR, [
        ({"weights": "fp8", "scales": "block", "k": 640}, "k 640"), (FP8 | {"dtype": "fp16"}, "dtype fp16")]),
    ("gemm_blackwell", "b200"): (LINEAR, [
        ({"epilogue": "quantise"}, "epilogue is quantise"), ({"n": 100}, "n is 100"),
        ({"weights": "int4"}, "weights is int4")]),
    ("gemm_blackwell_scaled", "b200"): (LINEAR, [
        ({"weights": "nvfp4", "scales": "block16", "k": 600}, "k is 600"),
        ({"weights": "fp8", "scales": "block16"}, "block16 scales"),
        ({"weights": "fp8", "scales": "block"}, "block scales")]),
    ("lm_head_skinny", "h200"): (HEAD, [
        ({"m": 17}, "m is 17"), ({"m": 16, "k": 16_384}, "m is 16"), ({"weights": "fp8"}, "weights is fp8")]),
    ("lm_head_skinny", "a100"): (HEAD, [({}, "device is NVIDIA A100")]),
    ("grouped_hopper", "h200"): (GROUPED, [
        ({"dtype": "fp32"}, "dtype is fp32"), ({"n": 260}, "n is 260"), ({"experts": 600}, "experts is 600"),
        ({"scales": "row"}, "scales is row")]),
    ("grouped_blackwell", "h200"): (GROUPED, [({}, "built for sm_100a only")]),
    ("grouped_blackwell", "b200"): (GROUPED, [({"k": 100}, "k 100"), ({"experts": 600}, "experts is 600")]),
    ("grouped_blackwell_fp8", "b200"): (GROUPED, [({}, "no scales"), ({"scales": "row", "k": 72}, "k is 72")]),
    ("torch_grouped_loop", "h200"): (GROUPED, [({"scales": "row"}, "scales is row")]),
    ("torch_grouped_mm", "h200"): (GROUPED, [({"dtype": "fp16"}, "dtype is fp16"), ({"rows": 0}, "rows is 0")]),
    ("monarch", "h200"): (CONVOLUTION, [
        ({"dtype": "fp32"}, "dtype is fp32"), ({"length": 40_000}, "length is 40000: this variant takes 1 to 32768"),
        ({"circular": True}, "length is 1000 and circular"),
        ({"filters": 3}, "width is 4, not a multiple of filters 3")]),
    ("monarch_long", "h200"): (CONVOLUTION, [({}, "length is 1000: this variant takes 32769 to")]),
    ("toeplitz", "h200"): (CONVOLUTION, [
        ({}, "filter is 1000"), ({"filter": 7, "length": 1024, "circular": True}, "circular is True"),
        ({"filter": 7, "dtype": "fp16"}, "dtype is fp16 and gated")]),
    ("torch_fft", "h200"): (CONVOLUTION, [({"filters": 3}, "width is 4, not a multiple of filters 3")]),
    ("subquadratic", "h200"): (CONVOLUTION, [
        ({"dtype": "fp16"}, "dtype is fp16"), ({"circular": True}, "circular is True"),
        ({"filters": 3}, "width is 4, not a multiple of filters 3")]),
    ("subquadratic", "cpu"): (CONVOLUTION, [({}, "device is CPU")]),
    ("torch_conv1d", "h200"): (CONVOLUTION, [({"circular": True, "filter": 9}, "circular is True")]),
    ("rmsnorm_triton", "h200"): (RmsNormCase(m=1, n=20_000), [({}, "n is 20000")]),
    ("rmsnorm_triton", "a100"): (RmsNormCase(m=1, n=64), [({"quantise": "fp8"}, "device is NVIDIA A100")]),
    ("gated_triton", "cpu"): (GatedCase(m=1, n=64), [({}, "device is CPU")]),
    ("rope_triton", "h200"): (ROPE, [
        ({"head_dim": 63}, "head_dim is 63"), ({"heads": 512}, "heads is 512"),
        ({"paged": True}, "the cache is paged"), ({"kv_dtype": "fp8"}, "kv_dtype is fp8 and nothing is appended")]),
    ("rope_triton", "a100"): (ROPE, [({"kv_dtype": "fp8", "append": True}, "device is NVIDIA A100")]),
}  # fmt: skip
ROWS = [
    pytest.param(name, case.model_copy(update=change), gpu, said, id=f"{name} {gpu} {said}")
    for (name, gpu), (case, changes) in REFUSED.items()
    for change, said in changes
]
NEVER_BUILT = ("decode_hopper", "flash_hopper", "flash_blackwell")
"""Attention that would read what belongs to nobody."""


@pytest.mark.parametrize(("name", "case", "gpu", "said"), ROWS)
def test_a_refusal_names_the_field(name: str, case: Any, gpu: str, said: str) -> None:
    refusal = registry.variant(name).serves(case, GPUS[gpu])
    assert said in refusal.reason
    if name in NEVER_BUILT and not said.startswith("device"):
        with pytest.raises(ValueError, match=said.split()[0]):
            registry.variant(name).build(case, {})


PARAMS: list[tuple[str, Any, dict[str, Any], str]] = [
    *(
        (name, LINEAR, {"stages": 3}, "stages")
        for name in ("torch_linear", "torch_linear_compiled", "int8_dynamic_cpu")
    ),
    ("sdpa_math", PREFILL, {"stages": 3}, "stages"),
    ("rmsnorm_triton", RmsNormCase(m=1, n=64), {"stages": 3}, "stages"),
    ("gated_triton", GatedCase(m=1, n=64), {"stages": 3}, "stages"),
    ("rope_triton", ROPE, {"stages": 3}, "stages"),
    *(("flash_hopper", PREFILL, {name: value}, name) for name, value in (("tile", 3), ("consumers", 4), ("slots", 1))),
    *(("flash_triton", PREFILL, {name: value}, name) for name,
      value in (("block_m", 24), ("block_n", 8), ("stages", 0))),
    *(("flash_blackwell", PREFILL, {name: value}, name) for name, value in (("keys", 64), ("slots", 12))),
    ("skinny", LINEAR.model_copy(update={"m": 4}), {"tile": 3}, "tile"),
    ("skinny", LINEAR.model_copy(update={"m": 4}), {"splits": 3}, "splits"),
    ("small_gemm", LINEAR, {"tile": 3}, "tile"),
    ("small_gemm", LINEAR, {"splits": 3}, "splits"),
    ("gemm_hopper", LINEAR, {"columns": 64}, "columns is 64"),
    ("gemm_hopper", LINEAR, {"stages": 9}, "stages is 9"),
    ("gemm_hopper", LINEAR, {"x": 1}, "not x"),
    ("gemm_hopper", LINEAR, {"ping_pong": True}, "ping_pong is true"),
    ("gemm_hopper", LINEAR, {"promote": True}, "promote"),
    ("gemm_hopper_fp8", LinearCase(m=64, n=64, k=64, weights="fp8", scales="block"), {"columns": 192},
     "columns is 192"),
    ("grouped_hopper", GROUPED, {"columns": 256}, "takes tiled, not columns"),
    ("grouped_hopper", GROUPED, {"tiled": True}, "tiled: 264 rows of w and k 320 are not whole tiles of 16"),
    ("grouped_blackwell", GROUPED, {"group": 8}, "takes columns, stages and pair, not group"),
    ("step_hopper", STEP.model_copy(update={"batch": 1, "heads": 12}), {"parts": 4}, "parts that divide"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "case", "params", "said"), PARAMS, ids=str)
def test_params_that_cannot_be_are_named(name: str, case: Any, params: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        registry.variant(name).build(case, params)


BF16 = torch.bfloat16
CPU = torch.device("cpu")
CASE = AttentionCase(kind="prefill", head_dim=64, heads=1, kv_heads=1, batch=1, q_len=2, kv_len=2)
GIVEN = torch.empty(4, 8, dtype=BF16)


def elsewhere(*shape: int) -> Any:
    """What the checks ask of a tensor, on the second of two GPUs."""
    tensor = torch.empty(shape, dtype=BF16)
    attributes = {name: getattr(tensor, name) for name in ("shape", "dtype", "stride", "is_contiguous", "numel", "dim")}
    return SimpleNamespace(**attributes, device=torch.device("cuda", 1))


CHECKS: dict[str, Callable[[Any], object]] = {
    "beside another argument": lambda x: check_tensor("x", x(4, 8), (4, 8), (BF16,), torch.device("cuda", 1)),
    "alone": lambda x: check_tensor("x", x(4, 8), (4, 8), (BF16,), layout="contiguous"),
    "attention": lambda x: check_qkv(CASE, *[x(1, 2, 1, 64)] * 3, device=None),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_tensor_on_another_gpu_than_the_current_one_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    with pytest.raises(ValueError, match=r"^[xq] is on cuda:1 and the current device is cuda:0"):
        CHECKS[name](elsewhere)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    CHECKS[name](elsewhere)


@pytest.mark.parametrize(
    ("given", "layout", "said"),
    [
        (GIVEN[:3], "rows", r"x has shape \[3, 8\], not \[4, any\]"),
        (GIVEN[0], "rows", r"x has shape \[8\], not \[4, any\]"),
        (GIVEN.float(), "rows", "x is torch.float32, not torch.bfloat16 or torch.float16"),
        (GIVEN[:, ::2], "rows", "x has stride 2 in its last dimension where 1 is needed"),
        (GIVEN[:, :4], "contiguous", "x is not contiguous"),
        (GIVEN[:, 1:], "rows", "x begins at 0x[0-9a-f]+, which is no multiple of 16 bytes"),
        (GIVEN[:, ::2], "any", "x is on cpu, not on a GPU"),
    ],
)
def test_each_thing_that_is_wrong_with_a_tensor_is_said(given: torch.Tensor, layout: TensorLayout, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        check_tensor("x", given, (4, None), (BF16, torch.float16), layout=layout, aligned=16)


def test_a_tensor_may_have_what_its_layout_leaves_open_on_one_device() -> None:
    check_tensor("x", GIVEN[:, :4], (4, 4), (BF16,), CPU, layout="rows")
    check_tensor("x", GIVEN[:, ::2], (None, 4), (BF16,), CPU, layout="any")
    check_tensor("x", GIVEN[:, ::8], (4, 1), (BF16,), CPU, layout="rows")
    with pytest.raises(ValueError, match="x is on cpu and the first argument on cuda:0"):
        check_tensor("x", GIVEN, (4, 8), (BF16,), torch.device("cuda", 0))


def test_an_optional_argument_is_missing_or_too_much() -> None:
    with pytest.raises(ValueError, match="bias is missing and epilogue is bias"):
        check_presence("bias", None, True, "epilogue is bias")
    with pytest.raises(ValueError, match="bias is given and epilogue is none"):
        check_presence("bias", GIVEN, False, "epilogue is none")


@pytest.mark.parametrize(
    ("name", "case", "said"),
    [
        ("skinny", LinearCase(m=17, n=64, k=64), "case.m is 17"),
        ("skinny", LinearCase(m=1, n=64, k=64, epilogue="quantise"), "case.epilogue is quantise"),
        ("small_gemm", LinearCase(m=257, n=64, k=64), "case.m is 257"),
        ("lm_head_skinny", LmHeadCase(m=17, vocab=64, k=64), "case.m is 17"),
        ("gemm_hopper", LinearCase(m=1, n=12, k=64, epilogue="swiglu"), "case.n is 12"),
        ("gemm_hopper_fp8", LinearCase(m=1, n=8, k=24, weights="fp8", scales="row"), "case.k is 24"),
        ("grouped_hopper", GroupedCase(rows=1, experts=1, n=12, k=64), "case.n is 12"),
        ("step_hopper", StepAttentionCase(batch=1, heads=1, kv_heads=1, head_dim=96, kv_len=9), "case.head_dim is 96"),
        ("flash_hopper", CASE.model_copy(update={"head_dim": 96}), "case.head_dim is 96"),
        ("decode_split", CASE.model_copy(update={"q_len": 65}), "case.q_len is 65"),
    ],
)
def test_a_case_that_a_variant_does_not_serve_is_not_built_either(name: str, case: Any, said: str) -> None:
    """Seventeen rows would read what belongs to nobody."""
    with pytest.raises(ValueError, match=f"^{said}"):
        registry.variant(name).build(case, {})
