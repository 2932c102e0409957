"""Published configurations that the megakernel promises to serve, and the sample model's: what it reads of them."""

from typing import Any


def _config(
    family: str, hidden: int, intermediate: int, layers: int, heads: int, kv_heads: int, head_dim: int, vocab: int,
    **others: Any,
) -> dict[str, Any]:  # fmt: skip
    return {
        "model_type": family, "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim, "vocab_size": vocab,
        "hidden_act": "silu", "tie_word_embeddings": True,
    } | others  # fmt: skip


CONFIGS = {
    "llama-3.2-1b": _config("llama", 2048, 8192, 16, 32, 8, 64, 128256),
    "llama-3.2-3b": _config("llama", 3072, 8192, 28, 24, 8, 128, 128256),
    "llama-3.1-8b": _config("llama", 4096, 14336, 32, 32, 8, 128, 128256, tie_word_embeddings=False),
    "qwen2.5-0.5b": _config("qwen2", 896, 4864, 24, 14, 2, 64, 151936),
    "qwen2.5-1.5b": _config("qwen2", 1536, 8960, 28, 12, 2, 128, 151936),
    "qwen2.5-3b": _config("qwen2", 2048, 11008, 36, 16, 2, 128, 151936),
    "qwen2.5-7b": _config("qwen2", 3584, 18944, 28, 28, 4, 128, 152064, tie_word_embeddings=False),
    "qwen3-0.6b": _config("qwen3", 1024, 3072, 28, 16, 8, 128, 151936),
    "qwen3-1.7b": _config("qwen3", 2048, 6144, 28, 16, 8, 128, 151936),
    "qwen3-4b": _config("qwen3", 2560, 9728, 36, 32, 8, 128, 151936),
    "qwen3-8b": _config("qwen3", 4096, 12288, 36, 32, 8, 128, 151936, tie_word_embeddings=False),
    "smollm2-135m": _config("llama", 576, 1536, 30, 9, 3, 64, 49152),
    "smollm2-360m": _config("llama", 960, 2560, 32, 15, 5, 64, 49152),
    "smollm2-1.7b": _config("llama", 2048, 8192, 24, 32, 32, 64, 49152),
    "tinyllama-1.1b": _config("llama", 2048, 5632, 22, 32, 4, 64, 32000, tie_word_embeddings=False),
    "voice-agent": _config("llama", 256, 512, 4, 8, 4, 32, 4096),  # samples/voice-agent
    "mistral-7b": _config("mistral", 4096, 14336, 32, 32, 8, 128, 32768, sliding_window=None),
}  # fmt: skip
