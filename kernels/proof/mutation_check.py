"""What a call may write into its arguments: the addressed slots of a KV cache, and nothing beside them."""

from collections.abc import Mapping
from typing import Any

import torch

from kernels.ops import Case, RopeCase, StepAttentionCase
from kernels.proof.paged_kv import slots

CACHES = ("k_cache", "v_cache")


def written_slots(case: Case, arguments: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
    """Copies of what the call's slots of the caches hold, each [batch, q_len, kv_heads, head_dim]; () for other ops."""
    if not _appends(case):
        return ()
    return tuple(arguments[name][_addressed(case, arguments)] for name in CACHES)


def rest_is_unchanged(case: Case, name: str, before: torch.Tensor, arguments: Mapping[str, Any]) -> bool:
    """Whether argument `name` is a cache of the call that differs from `before` in the call's own slots alone."""
    if name not in CACHES or not _appends(case):
        return False
    at = _addressed(case, arguments)
    restored = arguments[name].clone()
    restored[at] = before[at]
    return torch.equal(restored, before)


def _appends(case: Case) -> bool:
    return isinstance(case, StepAttentionCase) or (isinstance(case, RopeCase) and case.append)


def _addressed(case: Case, arguments: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    page_size = arguments[CACHES[0]].shape[1]
    q_len = case.q_len if isinstance(case, RopeCase) else 1
    return slots(arguments["position"], q_len, arguments.get("page_table"), page_size)
