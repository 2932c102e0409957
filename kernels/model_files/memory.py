"""How much memory a model needs: weights, KV cache and working space. Modelled, not measured."""

from typing import Any

from kernels.model_files.architectures import kind_of
from kernels.model_files.config import value
from kernels.model_files.families import attention_shape

OVERHEAD_BYTES = 1.0 * 2**30
"""CUDA context, library workspaces and graphs."""
ACTIVATION_COPIES = 6
"""Live [batch, prompt, hidden] tensors of a prefill, beside one [batch, vocab] of float32 logits."""


def kv_bytes_per_token(config: dict[str, Any], bytes_per_element: float = 2) -> int:
    """Bytes of K and V that one token keeps: 2 · layers · kv_heads · head_dim · bytes. 0 for an encoder."""
    layers = value(config, "layers")
    kind = kind_of(config.get("model_type", ""), config.get("architectures") or [])
    if kind == "encoder" or layers is None or value(config, "heads") is None:
        return 0
    _, kv_heads, head_dim = attention_shape(config)
    return int(2 * layers * kv_heads * head_dim * bytes_per_element)


def needed_bytes(
    config: dict[str, Any],
    parameters: int,
    *,
    bytes_per_element: float,
    batch: int,
    prompt: int,
    output: int,
    tensor_parallel_size: int = 1,
    copies: int = 1,
) -> float:
    """Bytes on a GPU to serve `batch` requests of `prompt` + `output` tokens at once; parameters in
    `bytes_per_element`. Of several GPUs each has its part of the layers and of their cache, and all of the rest.
    `copies` are those of the layers' weights.
    """
    hidden, vocab = value(config, "hidden_size") or 0, value(config, "vocab_size") or 0
    embeddings = hidden * vocab * (1 if config.get("tie_word_embeddings") else 2)
    on_all = min(parameters, embeddings)
    weights = (on_all + copies * (parameters - on_all) / tensor_parallel_size) * bytes_per_element
    cache = batch * (prompt + output) * kv_bytes_per_token(config, bytes_per_element) / tensor_parallel_size
    activations = batch * prompt * hidden * bytes_per_element * ACTIVATION_COPIES + batch * vocab * 4
    return weights + cache + activations + OVERHEAD_BYTES
