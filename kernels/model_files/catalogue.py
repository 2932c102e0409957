"""Known model configurations: no upload needed, weights come from a seed. Imports without torch."""

import json
from functools import cache
from pathlib import Path
from typing import Any

_DIRECTORY = Path(__file__).parent / "catalogue"

SUMMARIES: dict[str, str] = {
    "llama-3.2-1b": "Llama 3.2, 1.24 billion parameters: the voice-agent case",
    "qwen2.5-1.5b": "Qwen 2.5, 1.54 billion parameters: the voice-agent case, with biases on q, k and v",
    "llama-3.2-3b": "Llama 3.2, 3.21 billion parameters, heads of 128",
    "llama-3.1-8b": "Llama 3.1, 8.03 billion parameters: wants a GPU with 24 GiB or more",
    "llama-3.1-70b": "Llama 3.1, 70.6 billion parameters: larger than one GPU",
    "qwen2.5-0.5b": "Qwen 2.5, 494 million parameters, of which 136 million are the vocabulary's",
    "qwen2.5-3b": "Qwen 2.5, 3.09 billion parameters, 16 query heads on 2 key heads",
    "qwen2.5-7b": "Qwen 2.5, 7.62 billion parameters: wants a GPU with 24 GiB or more",
    "qwen3-0.6b": "Qwen 3, 596 million parameters, with norms on q and k",
    "qwen3-1.7b": "Qwen 3, 1.72 billion parameters",
    "qwen3-4b": "Qwen 3, 4.02 billion parameters, 32 heads of 128 on a hidden size of 2,560",
    "qwen3-8b": "Qwen 3, 8.19 billion parameters: wants a GPU with 24 GiB or more",
    "mistral-7b": "Mistral v0.3, 7.25 billion parameters, no window: wants a GPU with 24 GiB or more",
    "gemma-2-2b": "Gemma 2, 2.61 billion parameters, soft caps, windows of 4,096 tokens in every second layer",
    "gemma-3-1b": "Gemma 3, 1.00 billion parameters, one key head of 256, windows of 512 tokens in 5 of 6 layers",
    "granite-3.3-2b": "Granite 3.3, 2.53 billion parameters, with multipliers",
    "phi-4": "Phi 4, 14.7 billion parameters, packed matrices: wants a GPU with 40 GiB or more",
    "olmoe-1b-7b": "OLMoE, a mixture of 64 experts: 6.92 billion parameters, of which a token has 1.28",
    "qwen3-30b-a3b": "Qwen 3, a mixture of 128 experts: 30.5 billion parameters, of which a token has 3.35",
    "mixtral-8x7b": "Mixtral, a mixture of 8 experts: 46.7 billion parameters, of which a token has 12.9",
    "gpt-oss-20b": "gpt-oss, a mixture of 32 experts: 20.9 billion parameters, of which a token has 4.19",
    "smollm2-1.7b": "SmolLM2, 1.71 billion parameters, a key head for each query head",
    "smollm2-360m": "SmolLM2, 362 million parameters, 15 query heads on 5 key heads",
    "smollm2-135m": "SmolLM2, 135 million parameters in 30 narrow layers: launch-bound on a GPU",
    "tinyllama-1.1b": "TinyLlama, 1.10 billion parameters, 32 query heads on 4 key heads",
    "striped-hyena-150m": "StripedHyena-shaped, 155 million parameters: 9 layers of long convolutions, 3 of attention",
    "tiny-llama": "Llama-shaped, 1 million parameters: seconds on a CPU",
    "tiny-qwen2": "Qwen2-shaped, 1 million parameters: seconds on a CPU",
    "tiny-qwen3": "Qwen3-shaped with norms on q and k, 1 million parameters: seconds on a CPU",
    "tiny-qwen3-moe": "Qwen3-shaped mixture of 8 experts, 1.6 million parameters: seconds on a CPU",
    "tiny-mistral": "Mistral-shaped with a sliding window of 64 tokens, 1 million parameters: seconds on a CPU",
    "tiny-gemma": "Gemma-shaped with one key head, 1 million parameters: seconds on a CPU",
    "tiny-gpt2": "GPT-2-shaped with learned positions, 1 million parameters: seconds on a CPU",
    "tiny-striped-hyena": "StripedHyena-shaped with long convolutions, 1 million parameters: seconds on a CPU",
    "tiny-bert": "BERT-shaped encoder, 1 million parameters: latency per batch instead of per token",
}
"""One line per entry, in the order they are shown; the configuration is catalogue/<name>.json."""


def names() -> list[str]:
    """The entries, in the order they are shown."""
    return list(SUMMARIES)


@cache
def _text(name: str) -> str:
    return (_DIRECTORY / f"{name}.json").read_text()


def entry(name: str) -> tuple[dict[str, Any], str]:
    """Configuration (as in config.json) and one-line summary. Raises KeyError with the names there are."""
    if name not in SUMMARIES:
        raise KeyError(f"no catalogue model {name!r}; there are {', '.join(SUMMARIES)}")
    return json.loads(_text(name)), SUMMARIES[name]
