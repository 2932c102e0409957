"""What variants say of wrong arguments, whoever calls them."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernels import registry
from kernels.attention.arguments import check
from kernels.check_args import expect, expect_current
from kernels.gemm import hopper_call
from kernels.gemm.skinny_call import check_tensor
from kernels.ops import AttentionCase, GroupedCase, LinearCase, LmHeadCase, StepAttentionCase

BF16 = torch.bfloat16
CASE = AttentionCase(kind="prefill", head_dim=64, heads=1, kv_heads=1, batch=1, q_len=2, kv_len=2)


def elsewhere(*shape: int) -> Any:
    """What the checks ask of a tensor, on the second of two GPUs."""
    held = torch.empty(shape, dtype=BF16)
    said = {name: getattr(held, name) for name in ("shape", "dtype", "stride", "is_contiguous", "numel", "dim")}
    return SimpleNamespace(**said, device=torch.device("cuda", 1))


CHECKS: dict[str, Callable[[Any], object]] = {
    "triton": lambda x: expect("x", x(4, 8), (4, 8), (BF16,), torch.device("cuda", 1)),
    "skinny, small, lm_head": lambda x: check_tensor("x", x(4, 8), (4, 8), BF16),
    "hopper": lambda x: hopper_call._expect("x", x(4, 8), (4, 8), LinearCase(m=4, n=8, k=8)),
    "flash": lambda x: check(CASE, *[x(1, 2, 1, 64)] * 3),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_tensor_on_another_gpu_than_the_current_one_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    with pytest.raises(ValueError, match=r"^[xq] is on cuda:1 and the current device is cuda:0"):
        CHECKS[name](elsewhere)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    CHECKS[name](elsewhere)


def test_the_host_needs_no_current_gpu() -> None:
    expect_current("x", torch.empty(2))


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
