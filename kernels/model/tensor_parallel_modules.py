"""transformers' own model over a sharded one: its modules compute on every rank, and their partial sums are added.

It divides a model as transformers' `tp_plan` does, but for the LM head, and one process drives all ranks. Embedding,
norms, LM head and residual are the first rank's. No weight is copied, so a runner of the shards may stand beside it.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig
from transformers.cache_utils import DynamicCache

from kernels.dtypes import DTYPE_NAMES
from kernels.model import loading
from kernels.model.tensor_parallel import TensorParallelModel


class PartialSum(nn.Module):
    """Adds the ranks' partial sums on the first rank's device, in the order of the ranks."""

    def forward(self, first: Tensor, *others: Tensor) -> Tensor:
        for partial in others:
            first = first + partial.to(first.device)
        return first


class RankModules(nn.Module):
    """One layer's attention or MLP on every rank, in place of the whole model's: the first device's arguments, and the
    sum there. `copies` has what all layers of a pass are given, on each of the others.
    """

    def __init__(self, ranks: Sequence[Any], copies: dict[Any, tuple[Any, Any]]) -> None:
        super().__init__()
        for rank, module in enumerate(ranks):
            self.add_module(str(rank), module)
        self.sum = PartialSum()
        self._ranks, self._copies = list(ranks), copies

    def forward(self, *hidden: Tensor, **kwargs: Any) -> Any:
        outputs = []
        for rank, module in enumerate(self._ranks):
            device = next(module.parameters()).device
            own = {name: self._of_rank(name, value, rank, device) for name, value in kwargs.items()}
            outputs.append(module(*(_moved(item, device) for item in hidden), **own))
        if isinstance(outputs[0], tuple):  # attention gives its weights too, which nobody reads
            return self.sum(*(output[0] for output in outputs)), None
        return self.sum(*outputs)

    def _of_rank(self, name: str, value: Any, rank: int, device: torch.device) -> Any:
        if isinstance(value, DynamicCache):
            return _cache_of(value, rank, self._ranks)
        source, copied = self._copies.get((name, device), (None, None))
        if source is not value:
            copied = _moved(value, device)
            self._copies[name, device] = value, copied
        return copied


def _cache_of(first: Any, rank: int, modules: Sequence[Any]) -> Any:
    """A rank's keys and values, which live as long as the first rank's, the cache that `generate` holds."""
    if not hasattr(first, "of_ranks"):
        first.of_ranks = [DynamicCache(config=module.config) for module in modules[1:]]
    return first.of_ranks[rank - 1] if rank else first


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, tuple):
        return tuple(_moved(item, device) for item in value)
    return value.to(device) if isinstance(value, Tensor) else value


def over_ranks(sharded: TensorParallelModel) -> Any:
    """The whole model as transformers runs it, over the shards of `sharded`, which it names as its attribute."""
    first, copies = sharded.shards[0], dict[Any, tuple[Any, Any]]()
    model: Any = loading.skeleton(sharded.config.to_dict(), DTYPE_NAMES[first.dtype])
    core = model.model
    core.embed_tokens, core.norm, core.rotary_emb = first.model.embed_tokens, first.model.norm, first.model.rotary_emb
    model.lm_head = first.lm_head
    for layer, *shards in zip(core.layers, *(shard.model.layers for shard in sharded.shards), strict=True):
        layer.input_layernorm = shards[0].input_layernorm
        layer.post_attention_layernorm = shards[0].post_attention_layernorm
        layer.self_attn = RankModules([shard.self_attn for shard in shards], copies)
        layer.mlp = RankModules([shard.mlp for shard in shards], copies)
    model.generation_config = GenerationConfig(pad_token_id=model.config.pad_token_id)
    model.sharded = sharded
    return model.eval()
