"""The weights of a GGUF file, dequantised by the package `gguf` and laid out as transformers has them."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, dequantize
from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, TensorProcessor

from kernels.dequantising import layouts
from kernels.model_files.gguf import read_gguf
from kernels.model_files.gguf_config import named

PIECE = 2**22
"""Weights that a thread dequantises at once."""


def weights_of_gguf(
    name: str, path: Path, config: dict[str, Any]
) -> Iterator[tuple[str, torch.Tensor, layouts.Groups | None]]:
    """Each weight's name in transformers, its values in bf16, and scales and zeros where it is stored in groups."""
    header, data = read_gguf(name, path), np.memmap(path, np.uint8, mode="r")
    kind = TENSOR_PROCESSORS.get(header.metadata["general.architecture"], TensorProcessor)
    processor = kind(config=config)
    for ours, tensor in named(header, config, name).items():
        stored = data[tensor.start : tensor.end].reshape(*tensor.shape[:-1], -1)
        values, *numbers = (
            torch.from_numpy(np.ascontiguousarray(processor.process(weights=part, name=tensor.name).weights))
            for part in (dequantised(stored, tensor.dtype), *layouts.of_gguf(stored, tensor.dtype))
        )
        yield ours, values.bfloat16(), layouts.Groups(*numbers) if numbers else None


def dequantised(stored: np.ndarray, dtype: str) -> np.ndarray:
    """The values in float32 of bytes [..., bytes of a row]."""
    kind, rows = GGMLQuantizationType[dtype], stored.reshape(-1, stored.shape[-1])
    pieces = np.array_split(rows, max(1, min(len(rows), stored.size // PIECE)))
    with ThreadPoolExecutor(os.cpu_count()) as pool, np.errstate(all="ignore"):
        values = list(pool.map(lambda piece: dequantize(piece, kind), pieces))
    return np.concatenate(values).reshape(*stored.shape[:-1], -1)
