"""Weights made from a seed that are the same on every device. Imports without torch.

Every weight is an exact integer (four hash bytes summed: near normal, within 3.5 standard deviations) times one
float32 scale, so CPU and GPU give the same bits. Matrices get a standard deviation of 1/√fan-in, embeddings and LM
heads 2/√width (logits with a spread of about 2, so that greedy tokens are neither constant nor a coin toss); norms and
other vectors get the model's own initial value; biases and attention sinks are small. Experts' down projections are
divided by √(2 · layers), as GPT-2's residual ones: else another expert at a near tie, which rounding chooses, changes
gpt-oss's logits by a quarter, and no wrong kernel could be told from a right one.
"""

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from kernels.model_files.digests import GENERATOR_VERSION

if TYPE_CHECKING:
    import torch

BLOCK = 1 << 20
"""Elements hashed under one key; the last block of a tensor may be shorter."""
TOGETHER = 8 * BLOCK
"""Elements of a box that are filled at once, which takes some hundred MB."""
Box = tuple[slice, ...]
_MULTIPLIERS = (0x21F0AAAD, 0x735A2D97)
"""Multipliers of a 32-bit xorshift-multiply hash (as C. Wellons' `lowbias32`, hash-prospector); both below 2³¹."""
_SPREAD = (4 * (256**2 - 1) / 12) ** 0.5
"""Standard deviation of the sum of four uniform bytes."""
BIAS_STD = 0.02


def generate(model: "torch.nn.Module", seed: int) -> None:
    """Fills every parameter of a transformers model in place, by its name; tied parameters are filled once."""
    generate_shard(model, model, seed, {})


def generate_shard(
    shard: Any, full: Any, seed: int, boxes: Mapping[str, Sequence[tuple[Box, Box]]], prefix: str = ""
) -> None:
    """Fills a rank's shard of a model, or one of its modules, in place with the values that `generate` gives the whole
    model there.

    `full` is that model. Only its shapes are read, so it may be on the meta device. `boxes` are those of parameters
    that are sharded: where each lies in the shard, and where in the whole. `prefix` stands before a module's names,
    such as "model.layers.3.".
    """
    import torch

    _initialise_vectors(shard, full, seed)
    vocabulary = _vocabulary_sizes(full)
    with torch.no_grad(), ThreadPoolExecutor(os.cpu_count()) as pool:
        for own, parameter in shard.named_parameters():  # tied parameters come once
            name = prefix + own
            original = full.get_parameter(name)
            std = _std(full, name, original, vocabulary)
            if std is None:
                continue
            key, scale = f"{seed}:{name}", std / _SPREAD
            if name in boxes or parameter.is_cuda:
                everything = tuple(slice(0, length) for length in original.shape)
                for own_box, box in boxes.get(name, [(everything, everything)]):
                    begin = [side.start for side in box]
                    _fill_box(parameter.data[own_box], original.shape, begin, key, scale)
            else:
                _fill_tensor(parameter.data, key, scale, pool)


def _initialise_vectors(shard: Any, full: Any, seed: int) -> None:
    """Gives norms and other vectors of the shard the architecture's initial value (1, or 0 where the model adds 1)."""
    import torch

    with torch.random.fork_rng(range(torch.cuda.device_count())), torch.no_grad():
        torch.manual_seed(seed)
        for module in shard.modules():
            own = module.named_parameters(recurse=False)
            if any(parameter.ndim < 2 and not name.endswith("bias") for name, parameter in own):
                full._init_weights(module)


def _vocabulary_sizes(model: Any) -> set[int]:
    import torch

    return {module.num_embeddings for module in model.modules() if isinstance(module, torch.nn.Embedding)}


def _std(model: Any, name: str, parameter: Any, vocabulary: set[int]) -> float | None:
    """Standard deviation of a parameter, or None when it keeps its initial value, as one without elements does."""
    if not parameter.numel():
        return None
    if name.endswith(("bias", "sinks")) and (parameter.ndim < 2 or "expert" in name):
        return BIAS_STD
    if parameter.ndim < 2:
        return None
    rows, columns = parameter.shape[0], parameter.numel() // parameter.shape[0]
    if rows in vocabulary:
        return 2 / math.sqrt(columns)
    owner = model.get_submodule(name.rpartition(".")[0])
    if parameter.ndim > 2 and "expert" in name:
        spread = 1 / math.sqrt(parameter.shape[-2 if getattr(owner, "is_transposed", False) else -1])
        return spread / math.sqrt(2 * model.config.num_hidden_layers) if name.endswith("down_proj") else spread
    fan_in = rows if type(owner).__name__ == "Conv1D" else columns
    return 1 / math.sqrt(fan_in)


def _fill_tensor(tensor: "torch.Tensor", key: str, scale: float, pool: ThreadPoolExecutor) -> None:
    blocks = tensor.view(-1).split(BLOCK)
    list(pool.map(lambda job: _fill_on_cpu(job[1], *_block_key(key, job[0]), scale), enumerate(blocks)))


def _block_key(key: str, index: int) -> tuple[int, int]:
    """An odd stride and an offset: element i of the block hashes i · stride + offset modulo 2³²."""
    raw = hashlib.sha256(f"{GENERATOR_VERSION}:{key}:{index}".encode()).digest()
    return int.from_bytes(raw[:4], "little") | 1, int.from_bytes(raw[4:8], "little")


def _fill_on_cpu(block: "torch.Tensor", stride: int, offset: int, scale: float) -> None:
    import numpy as np
    import torch

    x = np.arange(block.numel(), dtype=np.uint32)
    x *= np.uint32(stride)
    x += np.uint32(offset)
    x ^= x >> np.uint32(16)
    x *= np.uint32(_MULTIPLIERS[0])
    x ^= x >> np.uint32(15)
    x *= np.uint32(_MULTIPLIERS[1])
    x ^= x >> np.uint32(15)
    pairs = (x & np.uint32(0x00FF00FF)) + ((x >> np.uint32(8)) & np.uint32(0x00FF00FF))
    total = ((pairs & np.uint32(0xFFFF)) + (pairs >> np.uint32(16))).astype(np.float32)
    total -= np.float32(510)
    total *= np.float32(scale)
    block.copy_(torch.from_numpy(total))


def _fill_box(box: "torch.Tensor", full: Sequence[int], begin: Sequence[int], key: str, scale: float) -> None:
    """Fills a box, on any device, that begins at `begin` in a tensor of shape `full`."""
    import numpy as np
    import torch

    rows, columns = box.view(len(box), -1), torch.zeros(1, dtype=torch.int64, device=box.device)
    for dimension in range(1, len(full)):
        along = torch.arange(box.shape[dimension], device=box.device) + begin[dimension]
        columns = (columns[:, None] + along * math.prod(full[dimension + 1 :])).flatten()
    size, width = math.prod(full), math.prod(full[1:])
    keys = [_block_key(key, index) for index in range(-(-size // BLOCK))]
    strides, offsets = torch.tensor(keys, device=box.device).unbind(1)
    together = max(1, TOGETHER // rows.shape[1])
    for first in range(0, len(rows), together):
        part = rows[first : first + together]
        at = (torch.arange(len(part), device=box.device) + begin[0] + first)[:, None] * width + columns
        block = at // BLOCK
        part.copy_(_hash(at % BLOCK * strides[block] + offsets[block]) * float(np.float32(scale)))


def _hash(x: "torch.Tensor") -> "torch.Tensor":
    """The sum of four hash bytes less its mean, float32, of integers int64 that count modulo 2³²."""
    mask = 0xFFFFFFFF
    x = x & mask
    x ^= x >> 16
    x = (x * _MULTIPLIERS[0]) & mask
    x ^= x >> 15
    x = (x * _MULTIPLIERS[1]) & mask
    x ^= x >> 15
    return ((x & 255) + ((x >> 8) & 255) + ((x >> 16) & 255) + (x >> 24)).float() - 510
