"""How the weights of a whole decoder become codes: each rounded to nearest, or by GPTQ on ids that a seed draws."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from kernels.model.bound_variants import fold_norm
from kernels.model.layer_weights import Weights, weights_of
from kernels.quant.formats import FP8_LAYERS, head_precision
from kernels.quant.gptq import gptq
from kernels.quant.quantised_matrix import QUANTISERS, QuantisedMatrix

HELD_BYTES = 12 * 2**30
"""Layers of at most so many bytes are rounded together. The next ones take another pass over the calibration."""
MATRICES = {
    "qkv": ("self_attn.q_proj", "self_attn.qkv_proj"),
    "o": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.gate_up_proj"),
    "down": ("mlp.down_proj",),
}
"""The matrices of a layer by their names in `kernels.model.decoder`, and the modules that may have their input."""


class Rounding(BaseModel):
    """The option `rounding`: GPTQ calibrated on uniform ids of `seed`, the same everywhere: no text is needed."""

    model_config = ConfigDict(extra="forbid")

    method: Literal["nearest", "gptq"] = "nearest"
    seed: int = 20
    sequences: int = Field(default=32, ge=1, le=1024)
    length: int = Field(default=128, ge=1, le=4096)

    def ids(self, vocabulary: int) -> Tensor:
        """The calibration's ids [sequences, length], on the CPU."""
        generator = torch.Generator().manual_seed(self.seed)
        return torch.randint(vocabulary, (self.sequences, self.length), generator=generator)


@dataclass(frozen=True)
class RoundedWeights:
    """Codes of a decoder's matrices: for each layer by the names of MATRICES, and of the LM head where it has some."""

    layers: list[dict[str, QuantisedMatrix]]
    lm_head: QuantisedMatrix | None


@torch.no_grad()
def round_weights(model: Any, compact: Any, weights: str, rounding: Rounding) -> RoundedWeights:
    """The matrices of `compact`, the packed decoder of the transformers `model`, in int8, nvfp4 or a form of fp8 or
    int4. A model that was stored in fp8 keeps its codes, whatever the rounding.

    Neither is changed. Norms that are folded into the compact decoder's matrices are those of `with_folded_norms`.
    Raises ValueError when a weight is not finite, or nvfp4's blocks do not fit.
    """
    if rounding.method == "nearest" or weights == FP8_LAYERS:
        layers = [{name: QUANTISERS[weights](weight) for name, weight in _of(layer)} for layer in compact.layers]
        return RoundedWeights(layers, head_codes(compact, weights))
    ids = rounding.ids(len(compact.embedding)).to(compact.embedding.device)
    layers, head = [], torch.zeros(())
    together = max(1, HELD_BYTES // sum(_held_bytes(weight) for _, weight in _of(compact.layers[0])))
    for begin in range(0, len(compact.layers), together):
        part = range(begin, min(begin + together, len(compact.layers)))
        moments, head = _moments(model, compact, part, ids)
        rounded = {name: _round(compact, part, name, moments, weights) for name in MATRICES}
        layers += [{name: codes[at] for name, codes in rounded.items()} for at in range(len(part))]
    apart = head_precision(weights) != weights
    lm_head = head_codes(compact, weights) if apart else gptq(compact.lm_head[None], head[None], weights)[0]
    return RoundedWeights(layers, lm_head)


def head_codes(compact: Any, weights: str) -> QuantisedMatrix | None:
    """The LM head of a decoder in `weights`, rounded to nearest; None where it stays in 16 bits."""
    precision = head_precision(weights)
    return QUANTISERS[precision](compact.lm_head) if precision else None


def _round(
    compact: Any, part: range, name: str, moments: dict[tuple[int, str], Tensor], weights: str
) -> list[QuantisedMatrix]:
    """One matrix of each layer of `part`. Takes its moments out of `moments`."""
    matrices = torch.stack([dict(_of(compact.layers[index]))[name] for index in part])
    return gptq(matrices, torch.stack([moments.pop((index, name)) for index in part]), weights)


def _held_bytes(weight: Tensor) -> int:
    """Bytes that rounding one matrix takes: its second moment, the factor of that, and the remainder, in float32."""
    rows, columns = weight.shape
    return 4 * columns * (2 * columns + rows)


def round_decoder(compact: Any, rounded: RoundedWeights) -> Any:
    """The compact decoder with the values of `rounded`; what it was made from stays as it is."""
    compact.layers = [
        layer._replace(
            qkv=(matrices["qkv"].values(),),
            o=matrices["o"].values(),
            mlp=layer.dense._replace(gate_up=(matrices["gate_up"].values(),), down=matrices["down"].values()),
        )
        for layer, matrices in zip(compact.layers, rounded.layers, strict=True)
    ]
    if rounded.lm_head is not None:
        compact.lm_head = rounded.lm_head.values()
    return compact


@torch.no_grad()
def with_folded_norms(compact: Any) -> Any:
    """Folds norms into the matrices behind them, in bf16, in place: such matrices are what products hold."""
    compact.layers = [
        layer._replace(
            input_norm=_ones(layer.input_norm),
            qkv=_fold_norm(layer.qkv, layer.input_norm),
            post_norm=_ones(layer.post_norm),
            mlp=layer.dense._replace(gate_up=_fold_norm(layer.dense.gate_up, layer.post_norm)),
        )
        for layer in compact.layers
    ]
    compact.lm_head, compact.norm = fold_norm(compact.lm_head, compact.norm), torch.ones_like(compact.norm)
    return compact


def _ones(norm: Tensor | None) -> Tensor | None:
    return None if norm is None else torch.ones_like(norm)


def _fold_norm(weights: tuple[Tensor, ...], norm: Tensor | None) -> tuple[Tensor, ...]:
    return weights if norm is None else tuple(fold_norm(weight, norm) for weight in weights)


def _of(layer: Weights) -> Iterator[tuple[str, Tensor]]:
    for name in MATRICES:
        matrix = getattr(layer if name in layer._fields else layer.dense, name)
        yield name, matrix if isinstance(matrix, Tensor) else matrix[0] if len(matrix) == 1 else torch.cat(matrix)


def _moments(model: Any, compact: Any, layers: range, ids: Tensor) -> tuple[dict[tuple[int, str], Tensor], Tensor]:
    """Second moments of the inputs of `compact`'s matrices over `ids`, by (layer, name), and of the LM head's; float32.

    The transformers `model` computes the inputs; norms that are folded into the matrices are taken out of them.
    """
    moments: dict[tuple[int, str], Tensor] = {}
    head = torch.zeros((), device=ids.device)

    def noting(key: tuple[int, str]) -> Callable[[Any, Any], None]:
        def note(module: Any, inputs: tuple[Tensor, ...]) -> None:
            moments[key] = moments[key] + _moment(inputs[0]) if key in moments else _moment(inputs[0])

        return note

    hooks = [
        _module(model.model.layers[index], name).register_forward_pre_hook(noting((index, name)))
        for index in layers
        for name in MATRICES
    ]
    try:
        for row in ids.split(8):
            head = head + _moment(model.model(input_ids=row, use_cache=False).last_hidden_state)
    finally:
        for hook in hooks:
            hook.remove()
    for index in layers:
        original, folded = weights_of(model.config, model.model.layers[index], True), compact.layers[index]
        _take_out(moments[index, "qkv"], original.input_norm, folded.input_norm)
        _take_out(moments[index, "gate_up"], original.post_norm, folded.post_norm)
    return moments, _take_out(head, model.model.norm.weight, compact.norm)


def _module(layer: Any, name: str) -> Any:
    """The module of a transformers layer that has the input of a matrix."""
    modules = dict(layer.named_modules())
    return next(modules[path] for path in MATRICES[name] if path in modules)


def _take_out(moment: Tensor, norm: Tensor | None, left: Tensor | None) -> Tensor:
    """Makes moments of inputs times `norm` those of inputs times `left`, the norm that the compact decoder keeps."""
    if norm is not None and left is not None and norm is not left:
        factor = torch.where(norm == 0, 0, left.float() / norm.float())
        moment.mul_(factor[:, None]).mul_(factor[None, :])
    return moment


def _moment(x: Tensor) -> Tensor:
    flat = x.reshape(-1, x.shape[-1]).float()
    return flat.T @ flat
