"""What sentence-transformers puts behind a model: a text's vector from those of its tokens."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch.nn.functional import normalize

from kernels.model_files.sentence_transformers import Dense, SentenceModules


class SentenceHead(torch.nn.Module):
    """Pooling, and the dense layers and scaling to length 1 behind it, whose weights lie in `directory`."""

    def __init__(self, modules: SentenceModules, directory: Path | None = None) -> None:
        super().__init__()
        self._pooling = modules.pooling
        self._layers = torch.nn.ModuleList(_layer(layer, directory) for layer in modules.layers)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Vectors [texts, width] of states [texts, tokens, values]; `mask` [texts, tokens] is 0 behind a text."""
        vector = torch.cat([_pool(mode, hidden, mask) for mode in self._pooling], -1)
        for layer in self._layers:
            vector = layer(vector)
        return vector


class _Normalize(torch.nn.Module):
    def forward(self, vector: torch.Tensor) -> torch.Tensor:
        return normalize(vector, dim=-1)


def _layer(layer: Dense | str, directory: Path | None) -> torch.nn.Module:
    if not isinstance(layer, Dense):
        return _Normalize()
    assert directory is not None
    linear = torch.nn.Linear(layer.inputs, layer.outputs, layer.bias)
    weights = load_file(directory / layer.file)
    linear.load_state_dict({name.removeprefix("linear."): weight for name, weight in weights.items()})
    return torch.nn.Sequential(linear.float(), getattr(torch.nn, layer.activation)()).requires_grad_(False)


def _pool(mode: str, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if mode == "cls":
        return hidden[:, 0]
    if mode == "lasttoken":
        return hidden[torch.arange(len(hidden)), mask.sum(1) - 1]
    weights = mask[..., None].to(hidden.dtype)
    if mode == "max":
        return hidden.masked_fill(weights == 0, float("-inf")).amax(1)
    if mode == "weightedmean":
        weights = weights * torch.arange(1, hidden.shape[1] + 1, device=hidden.device, dtype=hidden.dtype)[:, None]
    total = weights.sum(1)
    return (hidden * weights).sum(1) / (total.sqrt() if mode == "mean_sqrt_len_tokens" else total)
