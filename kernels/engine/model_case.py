"""The case of a loaded model: what a request must compute and read, for rooflines and for physics' bounds."""

from typing import Any

from kernels.ops import ModelCase


def model_case(model: Any, name: str, dtype: str, batch: int, prompt: int, tokens: int) -> ModelCase:
    """A request of `batch` prompts of `prompt` tokens that makes `tokens` new ones.

    A decode step reads every weight but an embedding that is only looked up, and on average the keys and values of the
    prompt and half of what is generated. A model with experts reads some of them only: its parameters and bytes are 0,
    which bounds nothing.
    """
    embedding = model.get_input_embeddings().weight
    parameters = 0 if has_experts(model.config) else _parameters(model, embedding)
    read = parameters * embedding.itemsize
    cache = _cache_bytes(model.config, batch, prompt + tokens / 2, embedding.itemsize) if parameters else 0
    return ModelCase(
        model=name,
        weights=dtype,  # type: ignore[arg-type]
        batch=batch,
        prompt=prompt,
        tokens=tokens,
        parameters=parameters,
        bytes_per_token=read + cache,
    )


def has_experts(config: Any) -> bool:
    """Whether a token passes through some of the model's weights only."""
    return any(getattr(config, name, None) for name in ("num_experts", "num_local_experts", "n_routed_experts"))


def _parameters(model: Any, embedding: Any) -> int:
    """Parameters that every token is multiplied by."""
    head = model.get_output_embeddings()
    tied = head is not None and head.weight.data_ptr() == embedding.data_ptr()
    total = sum(each.numel() for each in model.parameters())
    return int(total - (0 if tied else embedding.numel()))


def _cache_bytes(config: Any, batch: int, length: float, itemsize: int) -> float:
    """Bytes of keys and values that the mean decode step reads behind `length` tokens."""
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    return float(batch * 2 * config.num_hidden_layers * kv_heads * head_dim * itemsize * length)
