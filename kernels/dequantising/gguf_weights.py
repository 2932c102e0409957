"""The weights of a GGUF file, dequantised by the package `gguf` and laid out as transformers has them."""

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, dequantize

from kernels.dequantising import layouts
from kernels.model_files import ModelRefused
from kernels.model_files.families import FAMILIES, attention_shape
from kernels.model_files.gguf import read_gguf
from kernels.model_files.gguf_config import named
from kernels.model_files.headers import Tensor as StoredTensor

PIECE = 2**22
"""Weights that a thread dequantises at once."""
IN_PAIRS = ("llama", "granite", "smollm3")
"""Architectures whose rows of q and k that are rotated together lie side by side, not half a head apart."""
NORMS_PLUS_ONE = ("gemma", "gemma2", "gemma3")
NO_NUMBER = 255
"""Of MXFP4's scales, the first byte of each block of 17."""


def weights_of_gguf(name: str, path: Path, config: dict[str, Any]) -> Iterator[layouts.Job]:
    """Every weight by its name in transformers, with scales and zeros where it is stored in groups."""
    header, data = read_gguf(name, path), np.memmap(path, np.uint8, mode="r")
    arch, mixture = header.metadata["general.architecture"], FAMILIES[config["model_type"]].mixture
    heads, kv_heads, _ = attention_shape(config)
    paired = {".attn_q.": heads, ".attn_k.": kv_heads} if arch in IN_PAIRS else {}

    def converted(ours: str, parts: Sequence[StoredTensor]) -> layouts.Converted:
        tensors: list[torch.Tensor] = []
        numbers: list[np.ndarray] = []
        for part in parts:
            stored = data[part.start : part.end].reshape(*part.shape[:-1], -1)
            if part.dtype == "MXFP4" and (stored[..., ::17] == NO_NUMBER).any():
                raise ModelRefused(name, part.name, "the scales are not all numbers")
            values, *numbers = [dequantise_rows(stored, part.dtype), *layouts.gguf_scales(stored, part.dtype)]
            if arch in NORMS_PLUS_ONE and part.name.endswith("norm.weight"):
                values -= 1
            if paired_heads := next((count for key, count in paired.items() if key in part.name), None):
                values, *numbers = [_halves(value, paired_heads) for value in (values, *numbers)]
            tensors.append(torch.from_numpy(values).bfloat16())
        tensor = tensors[0] if mixture is None or ".mlp.experts." not in ours else _experts(tensors, mixture.biased)
        return tensor, layouts.Groups(*map(torch.from_numpy, numbers)) if numbers else None

    for ours, (_, parts) in named(header, config, name).items():
        size = sum(math.prod(part.shape) for part in parts)
        yield layouts.Job(ours, size, partial(converted, ours, parts))


def _halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head: first the first ones of all pairs that are rotated together, then the second ones."""
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def _experts(parts: list[torch.Tensor], alternating: bool) -> torch.Tensor:
    """Experts [experts, outputs, inputs] or their biases, with the gate before up; gpt-oss's rows of both alternate,
    and its weights are [experts, inputs, outputs].
    """
    joined = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
    if alternating and len(parts) > 1:
        joined = torch.stack(parts, 2).flatten(1, 2)
    return joined.transpose(1, 2) if alternating and joined.ndim == 3 else joined


def dequantise_rows(stored: np.ndarray, dtype: str) -> np.ndarray:
    """The values in float32 of bytes [..., bytes of a row]."""
    kind, rows = GGMLQuantizationType[dtype], stored.reshape(-1, stored.shape[-1])
    pieces = np.array_split(rows, max(1, min(len(rows), stored.size // PIECE)))
    with ThreadPoolExecutor(os.cpu_count()) as pool, np.errstate(all="ignore"):
        values = list(pool.map(lambda piece: dequantize(piece, kind), pieces))
    return np.concatenate(values).reshape(*stored.shape[:-1], -1)
