"""The model of each rank: what its prompt's pass computes with, and what its launch uploads."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch

from kernels.megakernel.program.weights import format_of_dense
from kernels.model.decoder import Decoder
from kernels.model.layer_weights import is_fp8
from kernels.model.rounding import (
    MATRICES,
    RoundedWeights,
    Rounding,
    head_codes,
    round_decoder,
    round_weights,
)
from kernels.model.tensor_parallel import TensorParallelModel, shard_model, shards_of
from kernels.quant.formats import FP8_LAYERS
from kernels.quant.quantised_matrix import QuantisedMatrix, quantised_shards, stored_form

_FOUND: WeakKeyDictionary[Any, WeakValueDictionary[tuple[str, str], RoundedWeights]] = WeakKeyDictionary()
"""The codes of each whole model that some runner holds, by their precision and their rounding."""


class RankModel(NamedTuple):
    """A rank's shard of a model, its prompts' decoder, and the codes of its matrices where rounded."""

    model: Any
    compact: Decoder
    rounded: RoundedWeights | None = None


def form_of(weights: str, model: Any) -> str:
    """A stored precision's form: of int4 most matrices', of fp8 with a 16-bit head if every matrix was so."""
    if weights == "fp8" and is_fp8(Decoder(model).layers):
        return FP8_LAYERS
    return stored_form(weights, [layer.self_attn.o_proj.weight for layer in model.model.layers])


@torch.no_grad()
def rank_models(model: Any, devices: Sequence[torch.device], weights: str, rounding: Rounding) -> list[RankModel]:
    """The models of all ranks, of a whole model, which is left as it is, or of a sharded one, which is rounded in place
    with the whole one's codes. Experts in fewer bits are the launch's. Raises ValueError for a rounding that needs the
    whole model on one GPU.
    """
    weights = format_of_dense(weights).name
    if isinstance(model, TensorParallelModel):
        if weights != "bf16" and rounding.method != "nearest":
            raise ValueError(
                f"rounding: {rounding.method} needs the whole model on one GPU; a sharded one takes nearest"
            )
        ranks = with_codes(model, [Decoder(shard) for shard in model.shards], weights)
        for rank, rank_model in enumerate(ranks):
            _round_in_place(rank_model, first=not rank)
        return ranks
    compact = Decoder(model)
    rounded = None if weights == "bf16" else _codes(model, compact, weights, rounding)
    if len(devices) == 1:
        if rounded is not None and not _keeps_values(compact, rounded):
            compact = round_decoder(compact, rounded)
        return [RankModel(model, compact, rounded)]
    models = []
    for rank, shard in enumerate(shard_model(model, devices).shards):
        decoder = Decoder(shard)
        codes = None if rounded is None else shard_codes(rounded, decoder, (rank, len(devices)), devices[rank])
        models.append(RankModel(shard, decoder, codes))
        _round_in_place(models[-1], first=len(models) == 1)
    return models


def _codes(model: Any, compact: Decoder, weights: str, rounding: Rounding) -> RoundedWeights:
    """The codes of a whole model. Runners over it share them while one of them lives, since GPTQ takes long."""
    cached, key = _FOUND.setdefault(model, WeakValueDictionary()), (weights, rounding.model_dump_json())
    codes = cached.get(key)
    if codes is None:
        codes = cached[key] = round_weights(model, compact, weights, rounding)
    return codes


@torch.no_grad()
def with_codes(model: Any, decoders: Sequence[Decoder], weights: str) -> list[RankModel]:
    """A model, whole or sharded, with codes rounded to nearest; `decoders` are the shards'. Changes nothing."""
    weights = format_of_dense(weights).name
    shards = shards_of(model)
    if weights == "bf16":
        return [RankModel(shard, compact) for shard, compact in zip(shards, decoders, strict=True)]
    if len(shards) == 1:
        return [RankModel(model, decoders[0], round_weights(model, decoders[0], weights, Rounding()))]
    layers: list[list[dict[str, QuantisedMatrix]]] = [[] for _ in decoders]
    for matrices in zip(*(compact.layers for compact in decoders), strict=True):
        ranks_codes = [
            ("qkv", quantised_shards([matrix.qkv[0] for matrix in matrices], weights, columns=False)),
            ("o", quantised_shards([matrix.o for matrix in matrices], weights, columns=True)),
            ("gate_up", quantised_shards([matrix.dense.gate_up[0] for matrix in matrices], weights, columns=False)),
            ("down", quantised_shards([matrix.dense.down for matrix in matrices], weights, columns=True)),
        ]
        for rank, layer_codes in enumerate(layers):
            layer_codes.append({name: codes[rank] for name, codes in ranks_codes})
    models = []
    for shard, compact, layer_codes in zip(shards, decoders, layers, strict=True):
        with torch.cuda.device_of(compact.lm_head):
            lm_head = head_codes(compact, weights)
        models.append(RankModel(shard, compact, RoundedWeights(layer_codes, lm_head)))
    return models


def shard_codes(
    whole_codes: RoundedWeights, shard: Decoder, rank_and_size: tuple[int, int], device: torch.device
) -> RoundedWeights:
    """A rank's shard of codes on its GPU: rows of q, k, v, gate and up, columns of others."""
    rank, shape = rank_and_size[0], shard.shapes[0]
    heads = [count * shape.head_dim for count in (shape.heads, shape.kv_heads, shape.kv_heads)]
    columns = {"o": shard.layers[0].o.shape[1], "down": shard.layers[0].dense.down.shape[1]}
    rows = {"qkv": _rows(heads, rank_and_size), "gate_up": _rows([columns["down"]] * 2, rank_and_size)}
    layers = []
    for layer_codes in whole_codes.layers:
        of_shard = {
            name: layer_codes[name].rows(chosen.to(layer_codes[name].codes.device)) for name, chosen in rows.items()
        }
        of_shard |= {name: layer_codes[name].columns(rank * count, count) for name, count in columns.items()}
        layers.append({name: codes.to(device) for name, codes in of_shard.items()})
    head = whole_codes.lm_head
    return RoundedWeights(layers, None if head is None else head.to(device))


def _rows(sizes: Sequence[int], rank_and_size: tuple[int, int]) -> torch.Tensor:
    """A rank's rows of matrices that lie one after the other; each rank has `sizes` rows of them."""
    (rank, ranks), begin, slices = rank_and_size, 0, []
    for size in sizes:
        slices.append(torch.arange(begin + rank * size, begin + (rank + 1) * size))
        begin += ranks * size
    return torch.cat(slices)


def _keeps_values(compact: Decoder, rounded: RoundedWeights) -> bool:
    """Whether the codes stand for the decoder's own values, as those of a checkpoint in fp8 do."""
    return rounded.lm_head is None and is_fp8(compact.layers)


def _round_in_place(rank: RankModel, first: bool) -> None:
    """Writes the values of the codes over the rank's matrices, and on the first rank, which alone chooses a prompt's
    next token, over its LM head. One that is the embedding too gets a rounded copy; the embedding stays as it is.
    """
    if rank.rounded is None or _keeps_values(rank.compact, rank.rounded):
        return
    for layer, layer_codes in zip(rank.compact.layers, rank.rounded.layers, strict=True):
        matrices = layer.qkv[0], layer.o, layer.dense.gate_up[0], layer.dense.down
        for matrix, name in zip(matrices, MATRICES, strict=True):
            matrix.copy_(layer_codes[name].values())
    head = rank.rounded.lm_head
    if not first or head is None:
        return
    if rank.compact.lm_head is rank.compact.embedding:
        rank.compact.lm_head = head.values()
    else:
        rank.compact.lm_head.copy_(head.values())
