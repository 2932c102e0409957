"""What a call may write into its arguments: the addressed slots of a KV cache, and nothing beside them."""

from collections.abc import Mapping
from typing import Any

import torch

from kernels.cache_slots import slots
from kernels.ops import Case, RopeCase

CACHES = ("k_cache", "v_cache")


def written_slots(case: Case, arguments: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
    """Copies of what the call's slots of the caches hold, each [batch, q_len, kv_heads, head_dim]; () for other ops."""
    if not (isinstance(case, RopeCase) and case.append):
        return ()
    return tuple(arguments[name][_addressed(case, arguments)] for name in CACHES)


def rest_is_unchanged(case: Case, name: str, before: torch.Tensor, arguments: Mapping[str, Any]) -> bool:
    """Whether argument `name` is a cache of the call that differs from `before` in the call's own slots alone."""
    if name not in CACHES or not (isinstance(case, RopeCase) and case.append):
        return False
    at = _addressed(case, arguments)
    restored = arguments[name].clone()
    restored[at] = before[at]
    return torch.equal(restored, before)


def _addressed(case: RopeCase, arguments: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    page_size = arguments[CACHES[0]].shape[1]
    return slots(arguments["position"], case.q_len, arguments.get("page_table"), page_size)
