"""A request of a model as a case, from its configuration alone, so that it has a floor before anything runs."""

from typing import Any

from kernels.measure.roofline import CACHED_BYTES
from kernels.model_files.config import value
from kernels.model_files.families import FAMILIES, head_shape, is_tied
from kernels.model_files.memory import kv_bytes_per_token
from kernels.ops import BYTES, ModelCase, Weights
from kernels.ops.model import last_only


def request_case(
    config: dict[str, Any], parameters: int, weights: Weights, batch: int, prompt: int, tokens: int
) -> ModelCase | None:
    """A request of `batch` prompts of `prompt` tokens that generates `tokens` each, weights in a precision.

    As `kernels.engine.model_case`, which asks the loaded model: every weight is read for every token, except an
    embedding that is only looked up. None where the configuration does not bound the time: a mixture of experts, a
    family whose tensors are not known one by one, weights that a cache may hold.
    """
    if value(config, "experts") or config.get("model_type") not in FAMILIES:
        return None
    vocabulary, hidden = head_shape(config)
    multiplied = parameters - (0 if is_tied(config) else vocabulary * hidden)
    if multiplied * BYTES[weights] < CACHED_BYTES:
        return None
    layers = value(config, "layers")
    cache = batch * (prompt + tokens / 2) * kv_bytes_per_token(config, BYTES[weights])
    return ModelCase(
        model=str(config["model_type"]),
        weights=weights,
        batch=batch,
        prompt=prompt,
        tokens=tokens,
        parameters=multiplied,
        last_only=last_only(multiplied, vocabulary * hidden, layers) if layers else None,
        bytes_per_token=multiplied * BYTES[weights] + cache,
    )
