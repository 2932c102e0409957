"""What variants say of wrong arguments, whatever their caller."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernels import registry
from kernels.check_args import TensorLayout, check_presence, check_qkv, check_tensor
from kernels.ops import AttentionCase, GroupedCase, LinearCase, LmHeadCase, StepAttentionCase

BF16 = torch.bfloat16
CPU = torch.device("cpu")
CASE = AttentionCase(kind="prefill", head_dim=64, heads=1, kv_heads=1, batch=1, q_len=2, kv_len=2)
GIVEN = torch.empty(4, 8, dtype=BF16)


def elsewhere(*shape: int) -> Any:
    """What the checks ask of a tensor, on the second of two GPUs."""
    held = torch.empty(shape, dtype=BF16)
    said = {name: getattr(held, name) for name in ("shape", "dtype", "stride", "is_contiguous", "numel", "dim")}
    return SimpleNamespace(**said, device=torch.device("cuda", 1))


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


def test_a_tensor_may_have_what_its_layout_leaves_open() -> None:
    check_tensor("x", GIVEN[:, :4], (4, 4), (BF16,), CPU, layout="rows")
    check_tensor("x", GIVEN[:, ::2], (None, 4), (BF16,), CPU, layout="any")
    check_tensor("x", GIVEN[:, ::8], (4, 1), (BF16,), CPU, layout="rows")


def test_arguments_on_two_devices_are_named() -> None:
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
