"""The megakernel's view of a model, read from config.json, and the models that it refuses. Imports without torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernels.model_files.config import value

FAMILIES = ("llama", "qwen2", "qwen3", "mistral")
HEAD_DIMS = (32, 64, 128)
BATCH_MOST = 8
"""Sequences: columns of a matrix unit's tile."""


class Unsupported(ValueError):
    """A model that the megakernel cannot serve; the message names the feature."""


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder of the Llama family. `rows` are output features; all lengths in elements."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    norm_eps: float
    qkv_bias: bool
    qk_norm: bool
    tied: bool

    @property
    def qkv_rows(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def step_bytes(self) -> int:
        """Bytes of bf16 weights that one token must read, without an untied embedding table."""
        layer = self.hidden * (self.qkv_rows + self.heads * self.head_dim + 3 * self.intermediate)
        return 2 * (self.layers * layer + self.vocab * self.hidden)


def shape_of(config: dict[str, Any]) -> ModelShape:
    """The shape of a config.json. Raises Unsupported naming the first feature that is not served."""
    family = config.get("model_type")
    if experts := value(config, "experts"):
        raise Unsupported(f"{family} with {experts} experts: the megakernel serves dense models")
    if family not in FAMILIES:
        raise Unsupported(f"model_type {family!r}: the megakernel serves {', '.join(FAMILIES)}")
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    shape = ModelShape(
        hidden=config["hidden_size"],
        intermediate=config["intermediate_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=head_dim,
        vocab=config["vocab_size"],
        norm_eps=config.get("rms_norm_eps", 1e-6),
        qkv_bias=family == "qwen2" or bool(config.get("attention_bias")),
        qk_norm=family == "qwen3",
        tied=bool(config.get("tie_word_embeddings")),
    )
    _check(shape, config)
    return shape


def _check(shape: ModelShape, config: dict[str, Any]) -> None:
    if shape.head_dim not in HEAD_DIMS:
        raise Unsupported(f"head_dim {shape.head_dim}: the megakernel serves {', '.join(map(str, HEAD_DIMS))}")
    if shape.heads % shape.kv_heads:
        raise Unsupported(f"num_key_value_heads {shape.kv_heads} does not divide num_attention_heads {shape.heads}")
    for name, size in (("hidden_size", shape.hidden), ("intermediate_size", shape.intermediate)):
        if size % 16:
            raise Unsupported(f"{name} {size}: the megakernel needs a multiple of 16")
    if config.get("hidden_act", "silu") != "silu":
        raise Unsupported(f"hidden_act {config['hidden_act']!r}: the megakernel serves silu")
    if config.get("mlp_bias"):
        raise Unsupported("mlp_bias: the megakernel has no bias in the MLP")
    if config.get("attention_bias") and config["model_type"] != "qwen2":
        raise Unsupported("attention_bias: the megakernel serves a bias on q, k, v only in qwen2")
    window = config.get("sliding_window")
    if window and config.get("use_sliding_window", config["model_type"] == "mistral"):
        raise Unsupported(f"sliding_window {window}: the megakernel attends to the whole context")


def positions_of(position: int | Sequence[int], batch: int) -> list[int]:
    """The position of each sequence's first token, given as one for all or one for each. Raises ValueError for another
    number.
    """
    positions = [position] * batch if isinstance(position, int) else list(position)
    if len(positions) != batch:
        raise ValueError(f"position: {len(positions)} of them for {batch} sequences")
    return positions
