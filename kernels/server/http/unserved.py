"""Fields by which other servers' clients change an answer, and which this server refuses instead of ignoring them."""

from typing import Any

NONE, OFF = (None,), (None, False)
OWN_NAMES = {
    "n_predict": "max_tokens",
    "num_predict": "max_tokens",
    "max_new_tokens": "max_tokens",
    "stop_sequences": "stop",
    "random_seed": "seed",
}
"""This server's name of a field that it has, by other servers' names."""
OF_OTHER_SERVERS: dict[str, tuple[Any, ...]] = dict.fromkeys(OWN_NAMES, NONE) | {
    # llama.cpp
    "adaptive_target": (None, -1),
    "dry_multiplier": (None, 0),
    "dynatemp_range": (None, 0),
    "grammar": (None, ""),
    "json_schema": NONE,
    "lora": (None, []),
    "min_keep": (None, 0),
    "mirostat": (None, 0),
    "n_probs": (None, 0),
    "repeat_penalty": (None, 1),
    "samplers": NONE,
    "t_max_predict_ms": (None, 0),
    "tfs_z": (None, 1),
    "top_n_sigma": (None, -1),
    "typical_p": (None, 1),
    "xtc_probability": (None, 0),
    # Text Generation Inference
    "adapter_id": NONE,
    "do_sample": (None, True),
    "inputs": NONE,
    "parameters": (None, {}),
    "return_full_text": OFF,
    "top_n_tokens": NONE,
    "truncate": NONE,
    "watermark": OFF,
    # SGLang
    "custom_logit_processor": NONE,
    "custom_params": NONE,
    "ebnf": NONE,
    "lora_path": NONE,
    "min_new_tokens": (None, 0),
    "no_stop_trim": OFF,
    "regex": NONE,
    "sampling_params": (None, {}),
    "stop_regex": (None, []),
    # Ollama
    "context": NONE,
    "format": (None, ""),
    "images": (None, []),
    "num_ctx": NONE,
    "options": (None, {}),
    "raw": OFF,
    "system": (None, ""),
    "template": (None, ""),
    "think": NONE,
    # vLLM
    "early_stopping": OFF,
    "guided_whitespace_pattern": NONE,
    "length_penalty": (None, 1),
    "logits_processors": (None, []),
    "mm_processor_kwargs": NONE,
    "spaces_between_special_tokens": (None, True),
    "thinking_token_budget": NONE,
    "vllm_xargs": (None, {}),
    # hosted ones
    "enable_thinking": NONE,
    "reasoning_effort": (None, "none"),
    "safe_prompt": OFF,
    "thinking": NONE,
    "verbosity": (None, "medium"),
    "web_search_options": NONE,
}
"""With the values that change nothing, as `kernels.server.http.schemas.UNSERVED`."""
OF_EMBEDDINGS: dict[str, tuple[Any, ...]] = dict.fromkeys(
    ("dimensions", "input_type", "truncate", "truncate_prompt_tokens", "truncation_direction", "task"), NONE
) | {"normalize": (None, True), "add_special_tokens": (None, True)}
"""The same of requests for vectors."""


def not_served(name: str) -> str:
    """The sentence for a field that is refused."""
    other = OWN_NAMES.get(name)
    return f"{name} is not served here" + (f": its name here is {other}" if other else "")
