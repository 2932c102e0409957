"""What a call may write into its arguments: the addressed slots of a KV cache, and nothing else."""

import torch

from kernels.ops.base import Arguments, BaseCase, Outputs

CACHES = ("k_cache", "v_cache")


def written(case: BaseCase, arguments: Arguments) -> Outputs:
    """Copies of the call's slots of the caches, each [batch, q_len, kv_heads, head_dim]; () for other ops."""
    at = case.written_slots(arguments)
    return () if at is None else tuple(arguments[name][at] for name in CACHES)


def rest_is_unchanged(case: BaseCase, name: str, before: torch.Tensor, arguments: Arguments) -> bool:
    """Whether argument `name` is a cache of the call that differs from `before` only in the call's own slots."""
    at = case.written_slots(arguments)
    if name not in CACHES or at is None:
        return False
    restored = arguments[name].clone()
    restored[at] = before[at]
    return torch.equal(restored, before)
