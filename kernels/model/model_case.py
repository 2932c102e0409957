"""The case of a loaded model: the FLOPs and bytes of a request, for rooflines and physical bounds."""

from typing import Any

from kernels.model import loading
from kernels.model.experts import MODEL_TYPES, has_experts, is_sparse, unchosen_parameters
from kernels.model_files.families import expert_sizes
from kernels.ops import ModelCase
from kernels.ops.model import last_only


def model_case(model: Any, name: str, dtype: str, batch: int, prompt: int, tokens: int) -> ModelCase:
    """A request of `batch` prompts of `prompt` tokens that generates `tokens` new ones.

    A decode step reads every weight except an embedding that is only looked up, and on average the keys and values of
    the prompt and half of the new tokens. Of a mixture of experts it reads at least those that one token has, since the
    tokens beside it may have the same. Where the number of these is not known, parameters and bytes are 0, so they
    bound nothing.
    """
    embedding = model.get_input_embeddings().weight
    parameters = _parameters(model, embedding)
    experts = expert_sizes(model.config.to_dict())
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
        expert_parameters=experts and experts.of_one_token,
        bytes_per_token=read + cache,
    )


def case_of_shapes(config: dict[str, Any], name: str, dtype: str, batch: int, prompt: int, tokens: int) -> ModelCase:
    """As `model_case`, by the configuration alone: for a model that is not loaded, or not in one piece."""
    model: Any = loading.skeleton(config, dtype)
    model.tie_weights()
    return model_case(model, name, dtype, batch, prompt, tokens)


def _parameters(model: Any, embedding: Any) -> int:
    """Parameters that multiply one token; 0 for a mixture where that number is not known."""
    head = model.get_output_embeddings()
    tied = head is not None and head.weight is embedding
    total = sum(parameter.numel() for parameter in model.parameters())
    if has_experts(model.config):
        if model.config.model_type not in MODEL_TYPES or not all(is_sparse(layer) for layer in model.model.layers):
            return 0
        total -= sum(unchosen_parameters(model.config, layer.mlp) for layer in model.model.layers)
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
