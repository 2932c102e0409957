"""What sets some families of decoders apart from Llama, read from config.json. Imports without torch.

Gemma scales the embedding by the square root of its width, and its norms multiply by one more than their weights.

Granite multiplies the outputs of a layer's halves by r before it adds them to the residual stream. The stream divided
by r needs no such factor, and a norm with eps / r² makes the same of it: only its beginning, the embedding, is then
another one.
"""

import math
from typing import Any, NamedTuple

DENSE_TYPES = (
    "llama", "qwen2", "qwen3", "mistral", "phi3", "granite", "olmo2", "gemma", "gemma2", "gemma3_text",
    "smollm3", "glm", "glm4", "olmo3", "exaone4", "seed_oss", "ministral", "ernie4_5",
)  # fmt: skip
TWO_ROPES = ("gemma3_text", "olmo3")
"""Families whose windowed layers have angles of their own."""
GEMMAS = ("gemma", "gemma2", "gemma3_text")
SHARDED = ("llama", "qwen2", "qwen3", "mistral", "qwen3_moe", "mixtral", "olmoe", "gpt_oss")
"""Families whose models are sharded over ranks."""
STATIC_ROPES = ("default", "linear", "llama3", "yarn")
"""Rotary embeddings whose angles depend on the position alone."""
LONG_ROPE = "longrope"
"""One whose angles are others where a sequence may be longer than the model was first trained for."""
NOPE = ("smollm3", "exaone4")
"""Families with layers that rotate nothing."""
INTERLEAVED = ("glm", "glm4", "ernie4_5")
"""Families that rotate neighbours in a head, where the others rotate what lies half of the rotated part apart."""
WINDOWED = ("mistral", "mixtral", "phi3", "ministral")
"""Families with a window in all layers or in none, unless the configuration lists layers."""


FULL_EVERY = {"gemma2": 2, "gemma3_text": 6, "olmo3": 4, "exaone4": 4, "gpt_oss": 2}
"""Families with a window in all layers but every so manieth, unless the configuration says otherwise."""

SOFT_CAPS = {"gemma2": (50.0, 30.0)}
"""The soft caps of scores and of logits, unless the configuration says otherwise."""


GATES = {"silu": "silu", "gelu_pytorch_tanh": "gelu"}
"""The activations that kernels have, and what these call them."""


def activation(config: dict[str, Any]) -> str:
    """The activation of the gate, by its name in configurations."""
    default = "gelu_pytorch_tanh" if config["model_type"] in GEMMAS else "silu"
    name = config.get("hidden_act") if config["model_type"] == "gemma" else config.get("hidden_activation")
    return str(name or config.get("hidden_act") or default)


def windows(config: dict[str, Any]) -> list[int]:
    """The keys that a token attends to in each layer, 0: all."""
    window, layers = config.get("sliding_window") or 0, config["num_hidden_layers"]
    if config["model_type"] in WINDOWED:
        return [0 if kind == "full_attention" else window for kind in config.get("layer_types") or [""] * layers]
    if period := FULL_EVERY.get(config["model_type"]):
        period = config.get("sliding_window_pattern") or period
        default = ["sliding_attention" if (index + 1) % period else "full_attention" for index in range(layers)]
        return [window if kind == "sliding_attention" else 0 for kind in config.get("layer_types") or default]
    if not config.get("use_sliding_window"):
        return [0] * layers
    first = config.get("max_window_layers") or 0
    kinds = config.get("layer_types") or ["full_attention"] * first + ["sliding_attention"] * (layers - first)
    return [window if kind == "sliding_attention" else 0 for kind in kinds[:layers]]


def unrotated_every(config: dict[str, Any]) -> int:
    """Every so manieth layer rotates nothing; 0: all rotate. Raises ValueError where it is not every so manieth."""
    layers = config["num_hidden_layers"]
    if config["model_type"] not in NOPE:
        return 0
    if config["model_type"] == "exaone4":
        rotates = [int(bool(window) or not config.get("sliding_window")) for window in windows(config)]
    else:
        period = config.get("no_rope_layer_interval") or 4
        rotates = config.get("no_rope_layers") or [int((index + 1) % period != 0) for index in range(layers)]
    first = rotates.index(0) + 1 if 0 in rotates else 0
    if first and rotates != [int((index + 1) % first != 0) for index in range(layers)]:
        raise ValueError("no_rope_layers are not every n-th layer")
    return first


BIASED = ("qwen2", "glm", "glm4", "seed_oss")
"""Families whose q, k and v have a bias and o has none, unless the configuration says otherwise."""


def attention_biases(config: dict[str, Any]) -> tuple[bool, bool]:
    """Whether q, k and v have a bias, and whether o has one."""
    family, both = config["model_type"], bool(config.get("attention_bias") or config.get("use_bias"))
    if family == "gpt_oss":
        both = bool(config.get("attention_bias", True))
    if family in BIASED:
        own = family == "qwen2" or bool(config.get("attention_bias", True))
        return own, bool(config.get("attention_out_bias"))
    return both, both


def head_size(config: dict[str, Any]) -> int:
    """The head_dim of a config.json."""
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def rotary_order(config: dict[str, Any]) -> list[int] | None:
    """The order of a head's elements in which rotating whole heads by halves does what the model does to a part of
    them, or to neighbours; None: their own. Scores do not depend on it.
    """
    size, interleaved = head_size(config), config["model_type"] in INTERLEAVED
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    rotated = int(size * (rope.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1))
    if rotated == size and not interleaved:
        return None
    pairs = [(2 * at, 2 * at + 1) if interleaved else (at, at + rotated // 2) for at in range(rotated // 2)]
    rest = (size - rotated) // 2
    pairs += [(at, at + rest) for at in range(rotated, rotated + rest)]
    return [first for first, _ in pairs] + [second for _, second in pairs]


class Multipliers(NamedTuple):
    """The factor of the embedding, the eps of a layer's norms and of the last one, the factors of scores and logits,
    and the soft caps of both (None: there is none), cap · tanh(x / cap).
    """

    embedding: float
    eps: float
    scores: float
    logits: float
    score_cap: float | None = None
    logit_cap: float | None = None


def multipliers(config: dict[str, Any]) -> Multipliers:
    """Those of a config.json. Raises ValueError for logits that no power of two divides: norms must stay exact."""
    eps = config.get("rms_norm_eps") or 1e-6
    if config["model_type"] in GEMMAS:
        scores = (config.get("query_pre_attn_scalar") or head_size(config)) ** -0.5
        default = SOFT_CAPS.get(config["model_type"], (None, None))
        names = ("attn_logit_softcapping", "final_logit_softcapping")
        caps = (config.get(name, own) for name, own in zip(names, default, strict=True))
        return Multipliers(config["hidden_size"] ** 0.5, eps, scores, 1.0, *caps)
    if config["model_type"] != "granite":
        return Multipliers(1.0, eps, head_size(config) ** -0.5, 1.0)
    embedding, residual, scores, divisor = (
        float(config.get(name) or 1)
        for name in ("embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling")
    )
    if math.frexp(divisor)[0] != 0.5:
        raise ValueError(f"logits_scaling {divisor} is no power of two")
    return Multipliers(embedding / residual, eps / residual**2, scores, 1 / divisor)
