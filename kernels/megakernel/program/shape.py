"""The megakernel's view of a model, read from config.json, and the models that it refuses. Imports without torch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernels.model.dense_families import (
    DENSE_TYPES,
    GATES,
    LONG_ROPE,
    NOPE,
    STATIC_ROPES,
    TWO_ROPES,
    activation,
    attention_biases,
    head_size,
    multipliers,
    unrotated_every,
    windows,
)
from kernels.model_files.config import value

MIXTURES = ("qwen3_moe", "olmoe", "mixtral", "gpt_oss")
MAX_EXPERTS = 256
"""Experts of a layer: a lane of the warp that routes a sequence has eight of them."""
AFTER = ("olmo2", "olmo3", "exaone4")
"""Families with norms behind attention and MLP alone."""
BOTH = ("gemma2", "gemma3_text", "glm4")
"""Families with norms before and behind both."""
MAX_LONG_ROPE = 4096
"""The longest sequences behind which longrope may switch: fewer tokens than the server gives an instance."""
ACTIVATIONS = ("silu", "gelu", "swigluoai")
"""Of the gate: gelu is its tanh form, swigluoai gpt-oss's clamped SwiGLU."""
HEAD_DIMS = (32, 64, 128, 256)
MAX_BATCH = 8
"""Sequences: columns of a matrix unit's tile."""


class Unsupported(ValueError):
    """A model that the megakernel cannot serve; the message names the feature."""


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder of the Llama family. `rows` are output features; all lengths in elements.

    - `tied`: the LM head is the embedding as it is looked up. `score_scale`: the factor of scores, 0: 1 / √head_dim.
    - `window`: keys that a token attends to, 0: all; in every `full_every`-th layer all, 0: in none.
    - `norm_before`, `norm_after`: norms stand before attention and MLP, behind them, or both. `whole_norm`: q and k are
      each normed over all heads.
    - `gate`: the gate's activation, one of ACTIVATIONS. `two_ropes`: there are two tables of angles; the second
      is that of windowed layers or, where these are given, of every `unrotated_every`-th layer.
    - `score_cap`, `logit_cap`: soft caps of scores and logits, 0: none. `sinks`: each query head has a score that joins
      its softmax and has no value.
    - `qkv_bias`, `out_bias`, `expert_bias`: q, k and v have biases; the output projection has one; the router has one,
      and gate, up and down of every expert.

    In a mixture a token goes to `top_k` of the `experts` of each layer, whose shares sum to 1 if `normalised`;
    `intermediate` is then that of all its experts together.
    """

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
    experts: int = 0
    top_k: int = 1
    normalised: bool = False
    whole_norm: bool = False
    score_scale: float = 0.0
    window: int = 0
    full_every: int = 0
    norm_before: bool = True
    norm_after: bool = False
    gate: str = "silu"
    two_ropes: bool = False
    unrotated_every: int = 0
    score_cap: float = 0.0
    logit_cap: float = 0.0
    sinks: bool = False
    out_bias: bool = False
    expert_bias: bool = False

    def windowed(self, layer: int) -> bool:
        """Whether tokens attend to a window in this layer."""
        return bool(self.window) and not (self.full_every and (layer + 1) % self.full_every == 0)

    def table(self, layer: int) -> int:
        """Which table of angles a layer takes."""
        every = self.unrotated_every
        return int((layer + 1) % every == 0 if every else self.two_ropes and self.windowed(layer))

    def first_key(self, layer: int, position: int) -> int:
        """The first key that the token at `position` attends to."""
        return max(0, position + 1 - self.window) if self.windowed(layer) else 0

    @property
    def batch_most(self) -> int:
        """The most sequences for which it has a layout by default."""
        return 1 if self.norm_after else MAX_BATCH

    @property
    def qkv_rows(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def step_bytes(self) -> int:
        """Bytes of bf16 weights that one token must read, without an untied embedding table."""
        layer = self.hidden * (self.qkv_rows + self.heads * self.head_dim + 3 * self.intermediate + self.experts)
        return 2 * (self.layers * layer + self.vocab * self.hidden)

    @property
    def experts_bytes(self) -> int:
        """Bytes of all experts of all layers in bf16; of a dense model 0."""
        return 2 * self.layers * self.experts * 3 * self.hidden * self.expert_size

    @property
    def expert_size(self) -> int:
        """The intermediate size of one expert; of a dense MLP, its own."""
        return self.intermediate // self.top_k


def shape_of(config: dict[str, Any]) -> ModelShape:
    """The shape of a config.json. Raises Unsupported naming the first feature that is not served."""
    family = config.get("model_type")
    if family not in (*DENSE_TYPES, *MIXTURES):
        served = ", ".join((*DENSE_TYPES, *MIXTURES))
        raise Unsupported(f"model_type {family!r}: the megakernel serves {served}")
    experts = value(config, "experts") or 0
    if bool(experts) != (family in MIXTURES):
        raise Unsupported(f"{family} with {experts} experts: the megakernel serves experts in {', '.join(MIXTURES)}")
    top_k = config["num_experts_per_tok"] if experts else 1
    size = value(config, "expert_size") if family == "qwen3_moe" else None
    heads = config["num_attention_heads"]
    head_dim, (qkv_bias, out_bias) = head_size(config), attention_biases(config)
    try:
        by, unrotated = multipliers(config), unrotated_every(config)
    except ValueError as error:
        raise Unsupported(f"{error}: the megakernel needs that") from None
    window, full_every = _windows(windows(config))
    shape = ModelShape(
        hidden=config["hidden_size"],
        intermediate=top_k * (size or config["intermediate_size"]),
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=head_dim,
        vocab=config["vocab_size"],
        norm_eps=by.eps,
        qkv_bias=qkv_bias,
        qk_norm=family in ("qwen3", "qwen3_moe", "olmoe", "olmo2", "olmo3", "exaone4", "gemma3_text"),
        tied=bool(config.get("tie_word_embeddings")) and by.embedding == 1,
        experts=experts,
        top_k=top_k,
        normalised=family in ("mixtral", "gpt_oss") or bool(config.get("norm_topk_prob")),
        whole_norm=family in ("olmoe", "olmo2", "olmo3"),
        score_scale=0.0 if math.isclose(by.scores, head_dim**-0.5) else by.scores,
        window=window,
        full_every=full_every,
        norm_before=family not in AFTER,
        norm_after=family in (*AFTER, *BOTH),
        gate="swigluoai" if family == "gpt_oss" else GATES.get(activation(config), ""),
        two_ropes=family in (*TWO_ROPES, *NOPE),
        unrotated_every=unrotated,
        score_cap=by.score_cap or 0.0,
        logit_cap=by.logit_cap or 0.0,
        sinks=family == "gpt_oss",
        out_bias=out_bias,
        expert_bias=family == "gpt_oss",
    )
    _check(shape, config)
    return shape


def _check(shape: ModelShape, config: dict[str, Any]) -> None:
    if shape.head_dim not in HEAD_DIMS:
        raise Unsupported(f"head_dim {shape.head_dim}: the megakernel serves {', '.join(map(str, HEAD_DIMS))}")
    if shape.heads % shape.kv_heads:
        raise Unsupported(f"num_key_value_heads {shape.kv_heads} does not divide num_attention_heads {shape.heads}")
    inner = "moe_intermediate_size" if config["model_type"] == "qwen3_moe" else "intermediate_size"
    for name, size in (("hidden_size", shape.hidden), (inner, shape.expert_size)):
        if size % 16:
            raise Unsupported(f"{name} {size}: the megakernel needs a multiple of 16")
    if (gate := activation(config)) not in GATES:
        raise Unsupported(f"hidden_act {gate!r}: the megakernel serves {', '.join(GATES)}")
    if config.get("use_bidirectional_attention"):
        raise Unsupported("use_bidirectional_attention: the megakernel attends to earlier tokens")
    if config.get("mlp_bias"):
        raise Unsupported("mlp_bias: the megakernel has no bias in the MLP")
    if shape.experts:
        _check_mixture(shape, config)
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    for item in [settings for settings in rope.values() if isinstance(settings, dict)] or [rope]:
        if (kind := item.get("rope_type", item.get("type", "default"))) not in (*STATIC_ROPES, LONG_ROPE):
            raise Unsupported(f"rope_type {kind!r}: the megakernel's angles do not depend on the length")
        name = "original_max_position_embeddings"
        if kind == LONG_ROPE and (switch := item.get(name) or config.get(name) or 0) > MAX_LONG_ROPE:
            raise Unsupported(f"{name} {switch}: the megakernel serves {LONG_ROPE} of at most {MAX_LONG_ROPE}")


def _windows(layers: list[int]) -> tuple[int, int]:
    """The window of all layers but each so manieth. Raises Unsupported where they are not divided so."""
    window, full = max(layers), [index for index, window_of_layer in enumerate(layers) if not window_of_layer]
    if not window or not full:
        return window, 0
    every = full[0] + 1
    if every < 2 or layers != [0 if (index + 1) % every == 0 else window for index in range(len(layers))]:
        raise Unsupported(f"sliding_window {window}: the megakernel serves it in all layers, or all but every n-th")
    return window, every


def _check_mixture(shape: ModelShape, config: dict[str, Any]) -> None:
    if shape.experts > MAX_EXPERTS:
        raise Unsupported(f"{shape.experts} experts: the megakernel serves up to {MAX_EXPERTS}")
    if not 1 <= shape.top_k <= shape.experts:
        raise Unsupported(f"num_experts_per_tok {shape.top_k} of {shape.experts} experts")
    if config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1:
        raise Unsupported("mlp_only_layers, decoder_sparse_step: the megakernel needs experts in every layer")
    if config.get("clip_qkv") is not None:
        raise Unsupported(f"clip_qkv {config['clip_qkv']}: the megakernel does not clip q, k and v")


def positions_of(position: int | Sequence[int], batch: int) -> list[int]:
    """Each sequence's first position, given as one for all or one for each. Raises ValueError for another number."""
    positions = [position] * batch if isinstance(position, int) else list(position)
    if len(positions) != batch:
        raise ValueError(f"position: {len(positions)} of them for {batch} sequences")
    return positions
