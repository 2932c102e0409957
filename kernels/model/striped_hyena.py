"""A decoder in which most layers are gated long convolutions and a few are Llama's attention, as StripedHyena's are.

Sources: Poli et al., *Hyena Hierarchy* (2023), and StripedHyena's layout. transformers has no such family, so this is
one of our own, built from its parts. The tensors are not those of published checkpoints.

A filter is a sum of decaying exponentials, so it is as long as any sequence. The convolution is computed as published
models do in torch, by real Fourier transforms in float32 that pad with as many zeros, the filter's among them.
"""

from typing import Any

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, Cache
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM, LlamaMLP, LlamaModel, LlamaRMSNorm

from kernels.dtypes import DTYPE_NAMES
from kernels.ops import FftConvCase


@strict
class StripedHyenaConfig(LlamaConfig):
    """Llama's fields and these: `attn_layer_idxs` are the layers with attention, `state_size` is the number of
    exponentials of a filter, and `short_filter_length` the taps of the convolution ahead of the gates.
    """

    model_type = "striped_hyena"

    attn_layer_idxs: list[int] | None = None
    state_size: int = 8
    short_filter_length: int = 3


class LongConvolution(nn.Module):
    """y = conv(u · w_pre, taps) · w_post of u, w_pre and w_post [batch, width, length], causal; taps of any length.

    `bias` is added to the first taps, as Hyena adds its product with the input.
    """

    def __init__(self, config: StripedHyenaConfig) -> None:
        super().__init__()
        width, order = config.hidden_size, config.state_size
        self.log_rates = nn.Parameter(torch.zeros(width, order))
        self.residues = nn.Parameter(torch.zeros(width, order))
        self.bias = nn.Parameter(torch.zeros(width))
        self._longest = config.max_position_embeddings
        self._taps: dict[tuple[torch.device, int], Tensor] = {}

    def taps(self, length: int) -> Tensor:
        """The filters [width, length] in float32: computed once for each power of two, and kept, for graphs read them.

        Exponentials decay within 1 to max_position_embeddings tokens; each has the norm of its residue.
        """
        key = self.bias.device, 1 << max(8, (length - 1).bit_length())
        if key not in self._taps:
            self._taps[key] = self._computed(key[1])
        return self._taps[key][:, :length]

    @torch.no_grad()
    def _computed(self, length: int) -> Tensor:
        order, device = self.residues.shape[1], self.bias.device
        spread = self._longest ** -(torch.arange(order, device=device, dtype=torch.float32) / max(1, order - 1))
        rates, at = self.log_rates.float().exp() * spread, torch.arange(length, device=device)
        residues = self.residues.float() * (2 * rates).sqrt()
        taps = torch.zeros(len(rates), length, device=device, dtype=torch.float32)
        for rate, residue in zip(rates.T, residues.T, strict=True):
            taps += residue[:, None] * torch.exp(-rate[:, None] * at)
        taps[:, 0] += self.bias.float()
        return taps

    def case(self, u: Tensor) -> FftConvCase:
        """What `forward` computes of this u."""
        batch, width, length = u.shape
        return FftConvCase(batch=batch, width=width, length=length, filter=length, dtype=DTYPE_NAMES[u.dtype])

    def forward(self, u: Tensor, w_pre: Tensor, w_post: Tensor) -> Tensor:
        length = u.shape[-1]
        spectrum = torch.fft.rfft(self.taps(length), n=2 * length)
        convolved = torch.fft.irfft(torch.fft.rfft((u * w_pre).float(), n=2 * length) * spectrum, n=2 * length)
        return convolved[..., :length].to(u.dtype) * w_post

    def last(self, products: Tensor, position: Tensor) -> Tensor:
        """conv(products, taps) [batch, width] at `position`, of u · w_pre [batch, tokens, width] up to there."""
        distance = position - torch.arange(products.shape[1], device=products.device)
        taps = self.taps(products.shape[1]).index_select(1, distance.clamp_min(0)).masked_fill(distance < 0, 0.0)
        return (products.float() * taps.T).sum(1).to(products.dtype)


class ShortConvolution(nn.Conv1d):
    """y = conv(u, taps) of u [batch, width, length], causal, with the few taps of each channel's filter."""

    def __init__(self, width: int, taps: int) -> None:
        super().__init__(width, width, taps, groups=width, padding=taps - 1, bias=False)
        self._taps: Tensor | None = None

    def taps(self, length: int) -> Tensor:
        """The filters [width, taps] in float32, the tap of a token itself first."""
        if self._taps is None or self._taps.device != self.weight.device:
            self._taps = self.weight.detach()[:, 0].flip(1).float()
        return self._taps

    def case(self, u: Tensor) -> FftConvCase:
        """What `forward` computes of this u."""
        batch, width, length = u.shape
        taps, dtype = self.weight.shape[-1], DTYPE_NAMES[u.dtype]
        return FftConvCase(batch=batch, width=width, length=length, filter=taps, gated=False, dtype=dtype)

    def forward(self, u: Tensor) -> Tensor:
        return super().forward(u)[..., : u.shape[-1]]

    def last(self, u: Tensor, position: Tensor) -> Tensor:
        """The same at `position` alone, [batch, width], of u [batch, tokens, width]."""
        taps = self.taps(u.shape[1]).T
        at = position - torch.arange(len(taps), device=u.device)
        recent = u.index_select(1, at.clamp_min(0)).float() * taps
        return (recent * (at >= 0)[:, None]).sum(1).to(u.dtype)


CONVOLUTIONS = (LongConvolution, ShortConvolution)
"""Modules whose `case` is an op of this library; a plan's variant may compute it from their `taps`."""


class HyenaMixer(nn.Module):
    """What stands in for attention: a projection, a short convolution of each channel, gates, a long convolution. The
    cache keeps projections as keys, the long one's input as values. Several tokens begin at position 0.
    """

    def __init__(self, config: StripedHyenaConfig, layer_idx: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.layer_idx = layer_idx
        self.in_proj = nn.Linear(width, 3 * width, bias=False)
        self.short_filter = ShortConvolution(3 * width, config.short_filter_length)
        self.long_filter = LongConvolution(config)
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, hidden: Tensor, position_ids: Tensor, past_key_values: Cache | None) -> Tensor:
        """hidden and the result: [batch, tokens, width]."""
        projected = self.in_proj(hidden)
        if past_key_values is not None and hidden.shape[1] == 1:
            mixed = self._step(projected, position_ids[0, -1:], past_key_values)
        else:
            w_post, w_pre, u = self.short_filter(projected.transpose(1, 2)).chunk(3, dim=1)
            if past_key_values is not None:
                past_key_values.update(projected[:, None], (u * w_pre).transpose(1, 2)[:, None], self.layer_idx)
            mixed = self.long_filter(u, w_pre, w_post).transpose(1, 2)
        out: Tensor = self.out_proj(mixed.contiguous())
        return out

    def _step(self, projected: Tensor, position: Tensor, cache: Cache) -> Tensor:
        """What is mixed [batch, 1, width] for the token at `position`."""
        heads = projected[:, None]
        keys, values = cache.update(heads, heads[..., : heads.shape[-1] // 3], self.layer_idx)
        w_post, w_pre, u = self.short_filter.last(keys[:, 0], position).chunk(3, dim=1)
        products = values[:, 0].index_copy_(1, position, (u * w_pre)[:, None])
        return (self.long_filter.last(products, position) * w_post)[:, None]


class HyenaLayer(nn.Module):
    """A layer of Llama with a `HyenaMixer` in place of attention."""

    def __init__(self, config: StripedHyenaConfig, layer_idx: int) -> None:
        super().__init__()
        self.mixer = HyenaMixer(config, layer_idx)
        self.mlp = LlamaMLP(config)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self, hidden_states: Tensor, position_ids: Tensor, past_key_values: Cache | None = None, **_: Any
    ) -> Tensor:
        mixed = self.mixer(self.input_layernorm(hidden_states), position_ids, past_key_values)
        hidden_states = hidden_states + mixed
        added: Tensor = hidden_states + self.mlp(self.post_attention_layernorm(hidden_states))
        return added


class StripedHyenaModel(LlamaModel):
    """Llama's stack, in which all layers but `attn_layer_idxs` are `HyenaLayer`s."""

    config_class = StripedHyenaConfig

    def __init__(self, config: StripedHyenaConfig) -> None:
        super().__init__(config)
        for index in set(range(config.num_hidden_layers)) - set(config.attn_layer_idxs or ()):
            self.layers[index] = HyenaLayer(config, index)
        self.post_init()


class StripedHyenaForCausalLM(LlamaForCausalLM):
    config_class = StripedHyenaConfig

    def __init__(self, config: StripedHyenaConfig) -> None:
        super().__init__(config)
        self.model = StripedHyenaModel(config)
        self.post_init()


AutoConfig.register(StripedHyenaConfig.model_type, StripedHyenaConfig)
AutoModelForCausalLM.register(StripedHyenaConfig, StripedHyenaForCausalLM)
