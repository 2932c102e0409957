"""What sets some families of decoders apart from Llama, read from config.json. Imports without torch.

Granite multiplies the outputs of a layer's halves by r before it adds them to the residual stream. The stream divided
by r needs no such factor, and a norm with eps / r² makes the same of it: only its beginning, the embedding, is then
another one.
"""

import math
from typing import Any, NamedTuple

DENSE_TYPES = ("llama", "qwen2", "qwen3", "mistral", "phi3", "granite", "olmo2")
STATIC_ROPES = ("default", "linear", "llama3", "yarn")
"""Rotary embeddings whose angles depend on the position alone."""
WINDOWED = ("mistral", "mixtral", "phi3")
"""Families with a window in all layers or in none, and no other field that says so."""


def windows(config: dict[str, Any]) -> list[int]:
    """The keys that a token attends to in each layer, 0: all."""
    window, layers = config.get("sliding_window") or 0, config["num_hidden_layers"]
    if config["model_type"] in WINDOWED:
        return [window] * layers
    if not config.get("use_sliding_window"):
        return [0] * layers
    first = config.get("max_window_layers") or 0
    kinds = config.get("layer_types") or ["full_attention"] * first + ["sliding_attention"] * (layers - first)
    return [window if kind == "sliding_attention" else 0 for kind in kinds[:layers]]


class Multipliers(NamedTuple):
    """The factor of the embedding, the eps of a layer's norms and of the last one, the factors of scores and logits."""

    embedding: float
    eps: float
    scores: float
    logits: float


def multipliers(config: dict[str, Any]) -> Multipliers:
    """Those of a config.json. Raises ValueError for logits that no power of two divides: their factor joins the last
    norm's weight, which must stay exact.
    """
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    eps = config.get("rms_norm_eps") or 1e-6
    if config["model_type"] != "granite":
        return Multipliers(1.0, eps, head_dim**-0.5, 1.0)
    embedding, residual, scores, divisor = (
        float(config.get(name) or 1)
        for name in ("embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling")
    )
    if math.frexp(divisor)[0] != 0.5:
        raise ValueError(f"logits_scaling {divisor} is no power of two")
    return Multipliers(embedding / residual, eps / residual**2, scores, 1 / divisor)
