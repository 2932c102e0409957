"""The case of a loaded model: the FLOPs and bytes of a request, for rooflines and physical bounds."""

from typing import Any

from kernels.engine import loading
from kernels.engine.experts import has_experts
from kernels.ops import ModelCase
from kernels.ops.model import last_only


def model_case(model: Any, name: str, dtype: str, batch: int, prompt: int, tokens: int) -> ModelCase:
    """A request of `batch` prompts of `prompt` tokens that generates `tokens` new ones.

    A decode step reads every weight except an embedding that is only looked up, and on average the keys and values of
    the prompt and half of the new tokens. A mixture of experts reads only some of its weights: its parameters and bytes
    are 0, so they bound nothing.
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
        last_only=_last_only(model, parameters),
        bytes_per_token=read + cache,
    )


def case_of_shapes(config: dict[str, Any], name: str, dtype: str, batch: int, prompt: int, tokens: int) -> ModelCase:
    """As `model_case`, by the configuration alone: for a model that is not loaded, or not in one piece."""
    whole: Any = loading.skeleton(config, dtype)
    whole.tie_weights()
    return model_case(whole, name, dtype, batch, prompt, tokens)


def _parameters(model: Any, embedding: Any) -> int:
    """Parameters that multiply every token."""
    head = model.get_output_embeddings()
    tied = head is not None and head.weight is embedding
    total = sum(each.numel() for each in model.parameters())
    return int(total - (0 if tied else embedding.numel()))


def _last_only(model: Any, parameters: int) -> int | None:
    """None without a head: every token of such a model is answered."""
    head = model.get_output_embeddings()
    return last_only(parameters, head.weight.numel(), model.config.num_hidden_layers) if head and parameters else None


def _cache_bytes(config: Any, batch: int, length: float, itemsize: int) -> float:
    """Bytes of keys and values that the mean decode step reads after `length` tokens."""
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    return float(batch * 2 * config.num_hidden_layers * kv_heads * head_dim * itemsize * length)
