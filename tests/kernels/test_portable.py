"""What variants say of wrong arguments, whoever calls them."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernels.attention.arguments import check
from kernels.gemm import hopper_call
from kernels.gemm.skinny_call import check_tensor
from kernels.ops import AttentionCase, LinearCase
from kernels.portable import expect, expect_current

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
