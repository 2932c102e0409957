"""Small configurations of several families, and their models."""

from typing import Any

from kernels import runners

SIZES: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 0,
}  # fmt: skip
LLAMA3_ROPE = {
    "rope_type": "llama3", "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": SIZES | {"model_type": "llama", "rope_scaling": LLAMA3_ROPE, "tie_word_embeddings": True},
    "llama-bias": SIZES | {"model_type": "llama", "attention_bias": True, "mlp_bias": True},
    "qwen2": SIZES | {"model_type": "qwen2"},
    "qwen2-window": SIZES | {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8,
        "max_window_layers": 1},
    "qwen3": SIZES | {"model_type": "qwen3", "head_dim": 32},
    "mistral": SIZES | {"model_type": "mistral", "sliding_window": 9},
    "phi3": SIZES | {"model_type": "phi3", "sliding_window": 9},
    "granite": SIZES | {"model_type": "granite", "embedding_multiplier": 12.0, "residual_multiplier": 0.22,
        "attention_multiplier": 0.1, "logits_scaling": 8.0, "tie_word_embeddings": True},
    "olmo2": SIZES | {"model_type": "olmo2"},
    "qwen3-moe": SIZES | {"model_type": "qwen3_moe", "head_dim": 32, "num_experts": 8, "num_experts_per_tok": 3,
        "moe_intermediate_size": 48, "norm_topk_prob": True},
    "mixtral": SIZES | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 9},
    "olmoe": SIZES | {"model_type": "olmoe", "num_experts": 8, "num_experts_per_tok": 3},
    "gpt-oss": SIZES | {
        "model_type": "gpt_oss", "head_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 3,
        "sliding_window": 8, "rope_theta": 150000.0, "rope_scaling": {
            "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
            "original_max_position_embeddings": 16,
        },
    },
    "gemma": SIZES | {"model_type": "gemma", "head_dim": 32, "tie_word_embeddings": True},
    "gemma3": SIZES | {"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "head_dim": 16,
        "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "gemma2": SIZES | {"model_type": "gemma2", "head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16,
        "attn_logit_softcapping": 1.5, "final_logit_softcapping": 3.0},
    "phi3-part": SIZES | {"model_type": "phi3", "sliding_window": 9, "partial_rotary_factor": 0.5},
    "smollm3": SIZES | {"model_type": "smollm3", "no_rope_layer_interval": 2},
    "glm4": SIZES | {"model_type": "glm4", "head_dim": 16},
    "exaone4": SIZES | {"model_type": "exaone4", "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "starcoder2": SIZES | {"model_type": "starcoder2"},
    "gpt2": {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 300,
             "bos_token_id": 1, "eos_token_id": 2},
    "bert": {"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 64, "num_hidden_layers": 2,
             "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 300},
}  # fmt: skip
SPARSE = ("qwen3-moe", "mixtral", "olmoe", "gpt-oss")
"""Mixtures of experts that the compact decoder runs."""
NEAR = ("phi3", "phi3-part", "granite", "olmo2", "gemma", "gemma2", "gemma3", "smollm3", "glm4", "exaone4")
"""Dense families that differ from Llama by more than a bias, a window or norms of q and k."""
COMPACT = ("llama", "llama-bias", "qwen2", "qwen2-window", "qwen3", "mistral", *NEAR, *SPARSE)
"""Families that the compact decoder runs; the other decoders run as transformers' modules."""


def load(config: str | dict[str, Any], dtype: str = "fp32", device: str = "cpu", seed: int = 3) -> Any:
    """The model of a configuration, or of one in CONFIGS by its name, with weights from the seed."""
    result = CONFIGS[config] if isinstance(config, str) else config
    return runners.load(None, result, seed=seed, generated=True, dtype=dtype, device=device)
